//! What the derives of `FieldEnum` and `Embedded` call.

use std::marker::PhantomData;

use serde::Serializer;
use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};

use crate::entity::{Entity, Field, FieldEnum};
use crate::{DecodeError, Value, ValueRef};

/// An entity that is another one, which none is: so what is listed with an entity is said to be of the other in words of ours.
#[diagnostic::on_unimplemented(
    message = "what belongs to `{Self}` is listed with `{E}`",
    label = "belongs to `{Self}`",
    note = "list it with its own: `entity({Self}, [..])`"
)]
pub trait Itself<E> {}

impl<E> Itself<E> for E {}

/// Stands for the entity of a declaration that names none, and says so itself: it may be listed anywhere.
#[derive(Debug)]
pub enum Unnamed {}

impl<E: Entity> Itself<E> for Unnamed {}

/// The same of what a route answers.
#[diagnostic::on_unimplemented(
    message = "a route of `{E}` answers a projection of `{Self}`",
    label = "a projection of `{Self}`",
    note = "one of its own: `#[projection({E})]`"
)]
pub trait Shown<E> {}

impl<E> Shown<E> for E {}

/// The type of a field, which is the one that a projection of its entity names.
#[diagnostic::on_unimplemented(message = "the field holds `{Self}`, not `{T}`", label = "`{Self}` in the entity")]
pub trait Holds<T> {
    /// The same value.
    fn shown_as(self) -> T;
}

impl<T> Holds<T> for T {
    fn shown_as(self) -> T {
        self
    }
}

/// A field's value as a projection has it.
pub fn shown<F: Field, T>(value: F::Ty) -> T
where
    F::Ty: Holds<T>,
{
    value.shown_as()
}

/// A variant as a value.
pub fn enum_to_value<E: FieldEnum>(variant: E) -> Value {
    Value::Text(variant.as_str().to_owned())
}

/// A variant from a stored value.
///
/// # Errors
/// When the value names no variant.
pub fn enum_from_value<E: FieldEnum>(value: ValueRef<'_>) -> Result<E, DecodeError> {
    match value {
        ValueRef::Text(text) => E::from_str(text),
        _ => None,
    }
    .ok_or_else(|| DecodeError::expected(E::DESC.name))
}

/// A variant as its wire name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_enum<E: FieldEnum, S: Serializer>(variant: &E, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(variant.as_str())
}

/// A variant from its wire name.
///
/// # Errors
/// When the input is no text or names no variant.
pub fn deserialize_enum<'de, E: FieldEnum, D: Deserializer<'de>>(deserializer: D) -> Result<E, D::Error> {
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

/// The changes of an item struct that could not be read.
#[derive(Debug)]
pub enum NoPatch {}

impl crate::entity::ItemPatch for NoPatch {
    fn members(self, _: &mut dyn FnMut(&'static str, Value)) {
        match self {}
    }
}

/// The members of an item while it is being read.
#[derive(Debug)]
pub struct Members<E> {
    members: serde_json::Map<String, serde_json::Value>,
    error: PhantomData<E>,
}

impl<E: Error> Members<E> {
    /// Reads an object.
    ///
    /// # Errors
    /// When the input is none.
    pub fn read<'de, D: Deserializer<'de, Error = E>>(deserializer: D) -> Result<Self, E> {
        let members = serde::Deserialize::deserialize(deserializer)?;
        Ok(Self { members, error: PhantomData })
    }

    /// Takes a member out; an absent one reads as null, so that optional members may be absent.
    ///
    /// # Errors
    /// When the member has another type, or is absent and not optional.
    pub fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, E> {
        match self.members.remove(name) {
            Some(value) => serde_json::from_value(value).map_err(|error| E::custom(format_args!("{name}: {error}"))),
            None => T::deserialize(UnitDeserializer::<E>::new()).map_err(|_| E::missing_field(name)),
        }
    }
}
