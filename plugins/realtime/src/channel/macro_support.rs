//! Functions that the output of the macros calls: descriptions of payloads, decoding of payloads,
//! and encoding of events.

use linchpin::entity::{Embedded, Entity, EntityDesc, FieldDesc, Kind, Projection};
use linchpin::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Encoded, Payload};

/// `A: SameEntity<B>` holds only if `A` and `B` are the same type.
///
/// The attribute gives the error text for a payload that is a projection of another entity.
#[diagnostic::on_unimplemented(
    message = "events of `{E}` cannot carry a projection of `{Self}`",
    label = "a projection of `{Self}`",
    note = "use a projection with `#[projection({E})]`"
)]
pub trait SameEntity<E> {}

impl<E> SameEntity<E> for E {}

/// The payload of events that carry a projection. The compiler checks that the projection belongs
/// to the entity.
pub const fn projection_payload<E: Entity, P: Projection>() -> Payload
where
    P::Entity: SameEntity<E>,
{
    Payload::Projection(P::NAME, P::FIELDS)
}

/// Returns a field that holds a list of items with these members, so that the code that reads and
/// validates list items also handles payloads.
pub const fn items(fields: &'static [FieldDesc]) -> FieldDesc {
    FieldDesc::new("", "", "", Kind::Items(fields), false)
}

/// Wraps the field of [`items`] in an entity that is not stored, because `Validator::new` takes an
/// entity.
pub const fn body(field: &'static [FieldDesc]) -> EntityDesc {
    EntityDesc::new("", "", "", field)
}

/// The payload of a variant that holds a struct.
#[derive(Debug)]
pub struct Body<T>(std::marker::PhantomData<T>);

impl<T: Embedded> Body<T> {
    /// The description of the members.
    pub const DESC: &'static EntityDesc = &body(&[items(T::FIELDS)]);
}

/// Reads the payload of a handler. It has been validated.
///
/// # Errors
/// `internal` if it has another form. The validation excludes this case.
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

/// Encodes a variant with named fields.
///
/// # Errors
/// None. The signature is the same as for the other forms of variants.
pub fn encode_members<const COUNT: usize>(
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

/// Encodes a variant with one value or without values.
///
/// # Errors
/// `internal` if the value has no JSON form.
pub fn encode_value(variant: usize, payload: &impl Serialize) -> Result<Encoded> {
    let payload = member(payload)?;
    Ok(Encoded { variant, payload })
}

/// The error for a variant without `#[publish]`, which code cannot publish.
///
/// # Errors
/// Always `internal`.
pub fn not_published(channel: &str) -> Result<Encoded> {
    Err(Error::internal(format!(
        "code can publish only variants of `{channel}` with the mark `#[publish]`"
    )))
}
