//! Literals of declarations as values.

use super::fields::{F, FieldAt};
use crate::entity::{Field, FieldType, TypeAt};
use crate::{Timestamp, Value};

/// A value of a field, which is of its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of the field `{F}`, which holds `{T}`",
    label = "`{F}` holds `{T}`",
    note = "a filter, a default and a binding name a value of the field's own type"
)]
pub trait Fits<T, F> {
    /// Whether it is the type itself, and not what an `Option` holds.
    const WHOLE: bool;
    /// As the field holds it.
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

/// The same of a field that is written as an `Option`: a value that is there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of the field `{F}`, which holds `{T}`",
    label = "`{F}` holds `{T}`",
    note = "a filter, a default and a binding name a value that is there, without `Some`"
)]
pub trait FitsSome<T, F> {
    /// As the field holds it.
    fn some(self) -> T;
}

impl<T, F> FitsSome<Option<T>, F> for T {
    fn some(self) -> Option<T> {
        Some(self)
    }
}

/// A literal of a field that is written as an `Option`.
pub fn some_literal<F: Field>(value: impl FitsSome<F::Ty, F>) -> Value {
    value.some().into_value()
}

/// A literal of a field: rustc judges its type. Whether that is one of a field is asked of the
/// entity alone.
pub fn literal<F: Field>(value: impl Fits<F::Ty, F>) -> Value {
    fixed::<F, _>(value)
}

/// The same of a field by its position: an operation names it so.
pub fn of<E: FieldAt<N>, const N: usize>(value: impl Fits<TypeAt<E, N>, F<E, N>>) -> Value {
    fixed::<F<E, N>, _>(value)
}

/// The same of a field that is written as an `Option`.
pub fn some_of<E: FieldAt<N>, const N: usize>(
    value: impl FitsSome<TypeAt<E, N>, F<E, N>>,
) -> Value {
    value.some().into_value()
}

fn fixed<F: Field, V: Fits<F::Ty, F>>(value: V) -> Value {
    const {
        assert!(
            !(V::WHOLE && <F::Ty as FieldType>::OPTIONAL),
            "linchpin: a value that a declaration names is there: no `Option`"
        );
    };
    value.fitting().into_value()
}

/// A literal of an item's field.
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

/// A new uuid, version 7.
pub fn uuid() -> Value {
    Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string())
}

/// A new cuid2.
pub fn cuid() -> Value {
    Value::Text(cuid2::create_id())
}

/// An instant, read at compile time.
pub fn date(millis: i64) -> Value {
    Value::Date(Timestamp::from_millis(millis))
}
