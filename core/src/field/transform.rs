//! Transforms: functions that a migration runs on stored values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stored::out_of_range;
use super::{EnumDesc, FieldType, Kind, SourceLine};
use crate::{DecodeError, Value, ValueRef};

/// A function of a migration, as `#[transform]` records it.
#[derive(Debug)]
pub struct TransformDesc {
    /// The path of the function, with its crate: `tasks::names::split`.
    pub name: &'static str,
    /// The argument.
    pub from: TransformFrom,
    /// The type of the new value.
    pub to: TransformType,
    /// The SHA-256 digest of the function's tokens, as 64 lower-case hexadecimal digits.
    pub body: &'static str,
    /// The function that converts a new value back to an old one.
    pub reverse: Option<&'static TransformDesc>,
    /// Runs the function. A panic of the function is not caught.
    pub run: TransformFn,
    /// The source location of the function.
    pub at: SourceLine,
}

impl TransformDesc {
    /// Runs the function and checks that its result can be stored. A panic of the function becomes
    /// an error.
    ///
    /// # Errors
    /// If the function refuses the value, panics, or returns a value that no field can have.
    pub fn checked(&self, input: TransformInput<'_>) -> Result<Value, TransformError> {
        let value = catch_unwind(AssertUnwindSafe(|| (self.run)(input)))
            .map_err(|_| TransformError::new("the function panicked"))??;
        let has_nul = |text: &String| text.contains('\0');
        match (&value, out_of_range(&value)) {
            (_, Some(flaw)) => Err(TransformError::new(flaw.message)),
            (Value::Text(text), _) if has_nul(text) => Err("the text contains a NUL".into()),
            (Value::Strings(all), _) if all.iter().any(has_nul) => {
                Err("a text of the list contains a NUL".into())
            }
            _ => Ok(value),
        }
    }
}

/// Runs a transform on one record.
///
/// # Errors
/// If the function refuses the value, or if the type of the value is not the function's argument
/// type.
pub type TransformFn = fn(TransformInput<'_>) -> Result<Value, TransformError>;

/// The argument of a transform.
#[derive(Debug, Clone, Copy)]
pub enum TransformFrom {
    /// The old value of the field.
    Value(TransformType),
    /// The whole old record: the transform fills a new field.
    Record,
}

/// The type of the argument or of the result of a transform.
#[derive(Debug, Clone, Copy)]
pub struct TransformType {
    /// The kind. An enum without variants means any enum.
    pub kind: Kind,
    /// Whether the value may be null.
    pub optional: bool,
}

impl TransformType {
    /// Returns the type of a field with this Rust type.
    pub const fn of<T: FieldType>() -> Self {
        Self {
            kind: T::KIND,
            optional: T::OPTIONAL,
        }
    }
}

/// A type that the argument of a transform may have: a field type, or [`EnumText`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the old value of a field",
    label = "not a field type",
    note = "use the type that the field had, or `EnumText` for an enum that is not in the code any more"
)]
pub trait OldValue: Sized {
    /// The type of the value.
    const TYPE: TransformType;
    /// Converts from a stored value.
    ///
    /// # Errors
    /// If the stored value has another form.
    fn read(value: ValueRef<'_>) -> Result<Self, DecodeError>;
}

impl<T: FieldType> OldValue for T {
    const TYPE: TransformType = TransformType::of::<T>();
    fn read(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        T::from_value(value)
    }
}

/// The stored text of an enum, as the argument of a transform. It accepts any enum, even an enum
/// that no longer exists in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumText(pub String);

impl OldValue for EnumText {
    const TYPE: TransformType = TransformType {
        kind: Kind::Enum(&EnumDesc {
            name: "",
            variants: &[],
        }),
        optional: false,
    };
    fn read(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        String::from_value(value).map(Self)
    }
}

/// The argument of one run of a transform.
#[derive(Clone, Copy)]
pub enum TransformInput<'a> {
    /// For [`TransformFrom::Value`]: the old value.
    Value(ValueRef<'a>),
    /// For [`TransformFrom::Record`]: the old record.
    Record(&'a OldRecord<'a>),
}

/// A record as it was stored before the migration: the argument of a transform that fills a new
/// field.
///
/// Fields have the names and types of the previous snapshot.
///
/// ```
/// use linchpin_core::Value;
/// use linchpin_core::entity::OldRecord;
///
/// let values = [Value::Text("ada@example.org".to_owned()), Value::Null];
/// let record = OldRecord::new(&["email", "nickname"], &values);
/// let email: String = record.get("email")?;
/// assert_eq!(email, "ada@example.org");
/// assert_eq!(record.get::<Option<String>>("nickname")?, None);
/// assert!(record.get::<i64>("email").is_err());
/// # Ok::<(), linchpin_core::entity::TransformError>(())
/// ```
#[derive(Clone, Copy)]
pub struct OldRecord<'a> {
    names: &'a [&'a str],
    values: &'a [Value],
}

impl<'a> OldRecord<'a> {
    /// Makes a record from the names of its fields and their values, in the same order.
    pub fn new(names: &'a [&'a str], values: &'a [Value]) -> Self {
        Self { names, values }
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    /// If the previous snapshot has no field of this name, or if its value is not a `T`.
    pub fn get<T: FieldType>(&self, field: &str) -> Result<T, TransformError> {
        let at = self.names.iter().position(|name| *name == field);
        let at = at.ok_or_else(|| {
            let names = self.names.join("`, `");
            TransformError::new(format!(
                "the record has no field `{field}`; it has: `{names}`"
            ))
        })?;
        let value = self.values.get(at).map_or(ValueRef::Null, Value::as_ref);
        T::from_value(value)
            .map_err(|error| TransformError::new(format!("field `{field}`: {error}")))
    }
}

/// The reason why a transform returns no new value for a record.
///
/// The message appears in the report of the migration, with the key of the record. It must not
/// contain the value of a sensitive field.
///
/// ```
/// use linchpin_core::entity::TransformError;
///
/// fn year(text: String) -> Result<i64, TransformError> {
///     text.parse().map_err(|_| "not a year".into())
/// }
/// assert_eq!(year("MMXX".to_owned()).unwrap_err().to_string(), "not a year");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransformError {
    message: String,
}

impl TransformError {
    /// Makes an error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TransformError {}

impl From<String> for TransformError {
    fn from(message: String) -> Self {
        Self { message }
    }
}

impl From<&str> for TransformError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}
