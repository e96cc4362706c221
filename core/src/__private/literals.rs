//! The values of literals in declarations.

use crate::entity::{F, FieldAt};
use crate::entity::{Field, FieldType, TypeAt};
use crate::{Timestamp, Value};

/// A value that has the type of a field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of the field `{F}`, which holds `{T}`",
    label = "`{F}` holds `{T}`",
    note = "filters, defaults and bindings need a value of the field's type"
)]
pub trait Fits<T, F> {
    /// Whether it is the field type itself, and not the type inside an `Option`.
    const WHOLE: bool;
    /// Returns the value in the field's type.
    fn fitting(self) -> T;
}

impl<T, F> Fits<T, F> for T {
    const WHOLE: bool = true;
    fn fitting(self) -> T {
        self
    }
}

impl<T, F> Fits<Option<T>, F> for T {
    const WHOLE: bool = false;
    fn fitting(self) -> Option<T> {
        Some(self)
    }
}

/// A value for a field that is declared as an `Option`, without `Some`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of the field `{F}`, which holds `{T}`",
    label = "`{F}` holds `{T}`",
    note = "filters, defaults and bindings need a value without `Some`"
)]
pub trait FitsSome<T, F> {
    /// Returns the value in the field's type.
    fn some(self) -> T;
}

impl<T, F> FitsSome<Option<T>, F> for T {
    fn some(self) -> Option<T> {
        Some(self)
    }
}

/// A literal for a field that is declared as an `Option`.
pub fn some_literal<F: Field>(value: impl FitsSome<F::Ty, F>) -> Value {
    value.some().into_value()
}

/// A literal for a field. The compiler checks its type. This function does not check that the type
/// is a field type; the code of `#[entity]` does.
pub fn literal<F: Field>(value: impl Fits<F::Ty, F>) -> Value {
    fixed::<F, _>(value)
}

/// A literal for the field at a position. Operations name fields by position.
pub fn of<E: FieldAt<N>, const N: usize>(value: impl Fits<TypeAt<E, N>, F<E, N>>) -> Value {
    fixed::<F<E, N>, _>(value)
}

/// A literal for the field at a position that is declared as an `Option`.
pub fn some_of<E: FieldAt<N>, const N: usize>(
    value: impl FitsSome<TypeAt<E, N>, F<E, N>>,
) -> Value {
    value.some().into_value()
}

fn fixed<F: Field, V: Fits<F::Ty, F>>(value: V) -> Value {
    const {
        assert!(
            !(V::WHOLE && <F::Ty as FieldType>::OPTIONAL),
            "linchpin: a value in a declaration cannot be an `Option`"
        );
    };
    value.fitting().into_value()
}

/// A literal for a field of an item.
pub fn item_literal<T: FieldType>(value: T::Inner) -> Value {
    value.into_value()
}

/// A text.
pub fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// A list of texts.
pub fn texts(values: &[&str]) -> Value {
    Value::Strings(values.iter().map(|v| (*v).to_owned()).collect())
}

/// The empty list of items.
pub fn no_items() -> Value {
    Value::Json("[]".to_owned())
}

/// A new UUID, version 7.
pub fn uuid() -> Value {
    Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string())
}

/// A new CUID2.
pub fn cuid() -> Value {
    Value::Text(cuid2::create_id())
}

/// A date, parsed at compile time.
pub fn date(millis: i64) -> Value {
    Value::Date(Timestamp::from_millis(millis))
}
