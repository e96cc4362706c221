//! The items that `#[transform]` and fields with a transform expand to.

use crate::entity::{
    Field, FieldType, Kind, OldRecord, OldValue, SourceLine, TransformDesc, TransformError,
    TransformFn, TransformFrom, TransformInput, TransformType,
};
use crate::{Value, ValueRef};
use linchpin_vocabulary::limit::MAX_INTEGER;

/// A function with `#[transform]`. The enum that the macro adds to the function implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transform",
    label = "a function of this name with `#[transform]` was expected"
)]
pub trait Transform {
    /// The type of the old value; the old record for a fill.
    type Old;
    /// The type of the new value.
    type New;
    /// The descriptor.
    const DESC: &'static TransformDesc;
}

/// A transform that returns a value of a field.
pub trait IntoField: Transform<New = Self::Field> {
    /// The type of the new value.
    type Field: FieldType;
}

/// A transform of the old value of a field.
pub trait FromValue: IntoField + Transform<Old = Self::Value> {
    /// The type of the old value.
    type Value: OldValue;
}

/// A type that the transform of a field of type `Ty` may return: `Ty` itself, or the type inside
/// its `Option`.
#[diagnostic::on_unimplemented(
    message = "the transform returns `{Self}`, but the field is `{Ty}`",
    label = "expected `fn(Old) -> Result<{Ty}, TransformError>`, or `fn(&OldRecord<'_>) -> Result<{Ty}, TransformError>` for a new field"
)]
pub trait StoredAs<Ty> {}

impl<T: FieldType> StoredAs<T> for T {}
impl<T: FieldType> StoredAs<Option<T>> for T {}
impl<T: FieldType> StoredAs<T> for AnyTransform {}

/// A transform that converts `New` back to `Old`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reverse this transform",
    label = "expected `fn({New}) -> Result<{Old}, TransformError>`"
)]
pub trait Reverses<Old, New> {}

impl<T: Transform> Reverses<T::New, T::Old> for T {}

/// The types of a transform whose declaration has an error that is already reported.
#[derive(Debug)]
pub enum AnyTransform {}

/// The descriptor of a transform of type [`AnyTransform`].
pub static ANY_TRANSFORM: TransformDesc = TransformDesc {
    name: "",
    from: TransformFrom::Record,
    to: TransformType {
        kind: Kind::Json,
        optional: false,
    },
    body: "",
    reverse: None,
    run: |_| Err(TransformError::new("the transform has an error")),
    at: SourceLine { file: "", line: 1 },
};

/// Describes a function of the old value.
pub const fn transform<T: FromValue>(
    name: &'static str,
    body: &'static str,
    at: SourceLine,
    run: TransformFn,
) -> TransformDesc {
    TransformDesc {
        name,
        from: TransformFrom::Value(T::Value::TYPE),
        to: TransformType::of::<T::Field>(),
        body,
        reverse: None,
        run,
        at,
    }
}

/// Describes a function that fills a new field.
pub const fn fill<T: IntoField>(
    name: &'static str,
    body: &'static str,
    at: SourceLine,
    run: TransformFn,
) -> TransformDesc {
    TransformDesc {
        name,
        from: TransformFrom::Record,
        to: TransformType::of::<T::Field>(),
        body,
        reverse: None,
        run,
        at,
    }
}

impl TransformDesc {
    /// Sets the function that converts new values back.
    #[doc(hidden)]
    #[must_use]
    pub const fn reversed_by(self, reverse: &'static Self) -> Self {
        Self {
            reverse: Some(reverse),
            ..self
        }
    }
}

/// The descriptor of the reverse of `T`. The compiler checks its types.
pub const fn reverse<T: Transform, R: Transform + Reverses<T::Old, T::New>>()
-> &'static TransformDesc {
    R::DESC
}

/// The descriptor of the transform of a field. The compiler checks that the field can store its
/// values.
pub const fn field_transform<F: Field, T: Transform<New: StoredAs<F::Ty>>>()
-> &'static TransformDesc {
    T::DESC
}

/// Runs a function of the old value. The compiler checks the function's signature.
///
/// # Errors
/// If the old value has another type, if the function refuses it, or if not every store can hold
/// the new value.
pub fn convert<T: FromValue>(
    input: TransformInput<'_>,
    function: fn(T::Value) -> Result<T::Field, TransformError>,
) -> Result<Value, TransformError> {
    let TransformInput::Value(old) = input else {
        return Err("the transform takes the old value of the field, not a record".into());
    };
    let old = T::Value::read(old).map_err(|error| TransformError::new(error.to_string()))?;
    storable(function(old)?.into_value())
}

/// Runs a function that fills a new field. The compiler checks the function's signature.
///
/// # Errors
/// If the function refuses the record, or if not every store can hold the new value.
pub fn run_fill<T: IntoField>(
    input: TransformInput<'_>,
    function: fn(&OldRecord<'_>) -> Result<T::Field, TransformError>,
) -> Result<Value, TransformError> {
    let TransformInput::Record(record) = input else {
        return Err("the transform takes the old record, not a value".into());
    };
    storable(function(record)?.into_value())
}

/// Returns the value if every store can hold it.
fn storable(value: Value) -> Result<Value, TransformError> {
    let problem = match value.as_ref() {
        ValueRef::Text(text) if text.contains('\0') => "the new text contains U+0000",
        ValueRef::Int(n) if n.unsigned_abs() > MAX_INTEGER.unsigned_abs() => {
            "the new integer is beyond ±(2^53−1)"
        }
        ValueRef::Float(n) if !n.is_finite() => "the new number is not finite",
        _ => return Ok(value),
    };
    Err(problem.into())
}
