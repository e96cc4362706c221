//! Typed glue of expansions: one function for each step that a declaration needs.

use linchpin::entity::{Embedded, Entity, EntityDesc, FieldDesc, Kind, Projection};
use linchpin::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Encoded, Payload};

/// `A: Carries<B>` holds only if both are the same type.
///
/// The attribute gives the error text for a payload that is a projection of another entity.
#[diagnostic::on_unimplemented(
    message = "events of `{E}` carry a projection of `{Self}`",
    label = "a projection of `{Self}`",
    note = "one of its own: `#[projection({E})]`"
)]
pub trait Carries<E> {}

impl<E> Carries<E> for E {}

/// The payload of events that a projection narrows. The compiler checks that it belongs to the
/// entity.
pub const fn carried<E: Entity, P: Projection>() -> Payload
where
    P::Entity: Carries<E>,
{
    Payload::Projection(P::NAME, P::FIELDS)
}

/// A payload as a field that holds items. Payloads are read and validated like items of lists.
pub const fn items(fields: &'static [FieldDesc]) -> FieldDesc {
    FieldDesc::new("", "", "", Kind::Items(fields), false)
}

/// The field of [`items`] as an entity that is not stored.
pub const fn body(field: &'static [FieldDesc]) -> EntityDesc {
    EntityDesc::new("", "", "", field)
}

/// The payload of a variant that holds a struct.
#[derive(Debug)]
pub struct Body<T>(std::marker::PhantomData<T>);

impl<T: Embedded> Body<T> {
    /// The members.
    pub const DESC: &'static EntityDesc = &body(&[items(T::FIELDS)]);
}

/// Reads the payload of a handler. It has been validated.
///
/// # Errors
/// `internal` if it has another form, which the validation rules out.
pub fn payload<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(Error::internal)
}

/// Converts the result of a handler.
///
/// # Errors
/// The error of the handler; `internal` if the result has no JSON form.
pub fn answer<T: Serialize>(result: Result<T>) -> Result<serde_json::Value> {
    serde_json::to_value(result?).map_err(Error::internal)
}

/// Converts a member of a payload.
///
/// # Errors
/// `internal` if it has no JSON form.
pub fn member(value: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(Error::internal)
}

/// A variant with named fields, as it is published.
///
/// # Errors
/// None; variants of all forms have the same signature.
pub fn members<const COUNT: usize>(
    variant: usize,
    members: [(&'static str, serde_json::Value); COUNT],
) -> Result<Encoded> {
    let members = members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    Ok(Encoded {
        variant,
        payload: serde_json::Value::Object(members.collect()),
    })
}

/// A variant with one value, or with none, as it is published.
///
/// # Errors
/// `internal` if the value has no JSON form.
pub fn encoded(variant: usize, payload: &impl Serialize) -> Result<Encoded> {
    let payload = member(payload)?;
    Ok(Encoded { variant, payload })
}

/// The error for a variant that no code publishes.
///
/// # Errors
/// Always `internal`.
pub fn not_published(channel: &str) -> Result<Encoded> {
    Err(Error::internal(format!(
        "code publishes only variants of `{channel}` with the mark `#[publish]`"
    )))
}
