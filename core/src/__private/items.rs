//! Functions and types that the derives of `FieldEnum` and `Embedded` use.

use std::marker::PhantomData;

use serde::Serializer;
use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};

use crate::entity::{Entity, Field, FieldEnum};
use crate::{DecodeError, Value, ValueRef};

/// `A: Itself<B>` holds only if both are the same type, or if `A` is [`Unnamed`].
///
/// The attribute sets the error message for a wrong entity in `package!`.
#[diagnostic::on_unimplemented(
    message = "an operation or route of `{Self}` is listed with `{E}`",
    label = "belongs to `{Self}`",
    note = "list it under its own entity: `entity({Self}, [..])`"
)]
pub trait Itself<E> {}

impl<E> Itself<E> for E {}

/// Replaces the missing entity of a broken declaration. `package!` accepts it under every entity.
#[derive(Debug)]
pub enum Unnamed {}

impl<E: Entity> Itself<E> for Unnamed {}

/// `A: Shown<B>` holds only if both are the same type.
///
/// The attribute sets the error message for a route that returns a projection of another entity.
#[diagnostic::on_unimplemented(
    message = "a route of `{E}` returns a projection of `{Self}`",
    label = "a projection of `{Self}`",
    note = "use a projection of the entity: `#[projection({E})]`"
)]
pub trait Shown<E> {}

impl<E> Shown<E> for E {}

/// A projection field must have the type of the entity field.
#[diagnostic::on_unimplemented(
    message = "the field holds `{Self}`, not `{T}`",
    label = "`{Self}` in the entity"
)]
pub trait Holds<T> {
    /// Returns the same value.
    fn shown_as(self) -> T;
}

impl<T> Holds<T> for T {
    fn shown_as(self) -> T {
        self
    }
}

/// Converts the value of a field for a projection.
pub fn shown<F: Field, T>(value: F::Ty) -> T
where
    F::Ty: Holds<T>,
{
    value.shown_as()
}

/// Converts a variant to a value.
pub fn enum_to_value<E: FieldEnum>(variant: E) -> Value {
    Value::Text(variant.as_str().to_owned())
}

/// Reads a variant from a stored value.
///
/// # Errors
/// If the value is not the name of a variant.
pub fn enum_from_value<E: FieldEnum>(value: ValueRef<'_>) -> Result<E, DecodeError> {
    match value {
        ValueRef::Text(text) => E::from_str(text),
        _ => None,
    }
    .ok_or_else(|| DecodeError::expected(E::DESC.name))
}

/// Writes the wire name of a variant.
///
/// # Errors
/// The errors of the serializer.
pub fn serialize_enum<E: FieldEnum, S: Serializer>(
    variant: &E,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(variant.as_str())
}

/// Reads a variant from its wire name.
///
/// # Errors
/// If the input is not a string, or not the name of a variant.
pub fn deserialize_enum<'de, E: FieldEnum, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<E, D::Error> {
    struct Name<E>(PhantomData<E>);
    impl<E: FieldEnum> Visitor<'_> for Name<E> {
        type Value = E;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a variant of {}", E::DESC.name)
        }
        fn visit_str<X: Error>(self, text: &str) -> Result<E, X> {
            E::from_str(text).ok_or_else(|| X::unknown_variant(text, E::DESC.variants))
        }
    }
    deserializer.deserialize_str(Name(PhantomData))
}

/// Placeholder patch type of an item struct with errors.
#[derive(Debug)]
pub enum NoPatch {}

impl crate::entity::ItemPatch for NoPatch {
    fn members(self, _: &mut dyn FnMut(&'static str, Value)) {
        match self {}
    }
}

/// The JSON members of an item that is read.
#[derive(Debug)]
pub struct Members<E> {
    members: serde_json::Map<String, serde_json::Value>,
    error: PhantomData<E>,
}

impl<E: Error> Members<E> {
    /// Reads an object.
    ///
    /// # Errors
    /// If the input is not an object.
    pub fn read<'de, D: Deserializer<'de, Error = E>>(deserializer: D) -> Result<Self, E> {
        let members = serde::Deserialize::deserialize(deserializer)?;
        Ok(Self {
            members,
            error: PhantomData,
        })
    }

    /// Removes a member and returns its value. A missing member reads as null, so optional members
    /// may be missing.
    ///
    /// # Errors
    /// If the member has another type, or if it is missing and not optional.
    pub fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, E> {
        match self.members.remove(name) {
            Some(value) => serde_json::from_value(value)
                .map_err(|error| E::custom(format_args!("{name}: {error}"))),
            None => {
                T::deserialize(UnitDeserializer::<E>::new()).map_err(|_| E::missing_field(name))
            }
        }
    }
}
