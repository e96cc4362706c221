//! Transforms: functions that a migration runs on stored values.
//!
//! A field whose type changes names a transform:
//! `#[field(transform = transforms::integer_to_string)]`. This module has the common ones; the
//! attribute [`transform`](macro@crate::transform) turns any suitable function into one.

pub use linchpin_core::entity::{
    EnumText, OldRecord, TransformDesc, TransformError, TransformFn, TransformFrom, TransformInput,
    TransformType,
};

use crate::transform;

/// Converts an integer to its decimal text.
///
/// ```
/// assert_eq!(linchpin::transforms::integer_to_string(-42).as_deref(), Ok("-42"));
/// ```
///
/// # Errors
/// Never.
#[transform(crate = crate)]
#[allow(clippy::unnecessary_wraps)] // every transform returns a `Result`
pub fn integer_to_string(old: i64) -> Result<String, TransformError> {
    Ok(old.to_string())
}

/// Converts an integer to a number with the same value.
///
/// ```
/// assert_eq!(linchpin::transforms::integer_to_number(3), Ok(3.0));
/// ```
///
/// # Errors
/// Never. Stored integers are within ±(2^53−1), so each has an equal number.
#[transform(crate = crate)]
#[allow(clippy::unnecessary_wraps, clippy::cast_precision_loss)] // no precision is lost
pub fn integer_to_number(old: i64) -> Result<f64, TransformError> {
    Ok(old as f64)
}

/// Converts a value of any enum to its stored text.
///
/// ```
/// use linchpin::transforms::{EnumText, enum_to_string};
///
/// assert_eq!(enum_to_string(EnumText("in_review".to_owned())).as_deref(), Ok("in_review"));
/// ```
///
/// # Errors
/// Never.
#[transform(crate = crate)]
#[allow(clippy::unnecessary_wraps)] // every transform returns a `Result`
pub fn enum_to_string(old: EnumText) -> Result<String, TransformError> {
    Ok(old.0)
}

/// Converts the decimal text of an integer to the integer.
///
/// Only the form that [`integer_to_string()`] writes is accepted: no `+`, no leading zeros, no `-0`,
/// no white space.
///
/// ```
/// use linchpin::transforms::string_to_integer_strict;
///
/// assert_eq!(string_to_integer_strict("42".to_owned()), Ok(42));
/// for other in ["", "042", "+42", " 42", "4.2", "-0", "9007199254740992"] {
///     assert!(string_to_integer_strict(other.to_owned()).is_err(), "{other}");
/// }
/// ```
///
/// # Errors
/// For any other text, and for integers beyond ±(2^53−1).
#[transform(crate = crate, reverse = integer_to_string)]
pub fn string_to_integer_strict(old: String) -> Result<i64, TransformError> {
    let number: i64 = old
        .parse()
        .map_err(|_| TransformError::new("the text is not an integer"))?;
    if number.to_string() != old {
        return Err("the text is not the shortest form of an integer".into());
    }
    if number.unsigned_abs() > 9_007_199_254_740_991 {
        return Err("the integer is beyond ±(2^53−1)".into());
    }
    Ok(number)
}

/// Converts a text to a list with this text as its only element.
///
/// ```
/// use linchpin::transforms::string_to_string_array;
///
/// assert_eq!(string_to_string_array("red".to_owned()), Ok(vec!["red".to_owned()]));
/// ```
///
/// # Errors
/// Never.
#[transform(crate = crate, reverse = string_array_to_string)]
#[allow(clippy::unnecessary_wraps)] // every transform returns a `Result`
pub fn string_to_string_array(old: String) -> Result<Vec<String>, TransformError> {
    Ok(vec![old])
}

/// Converts a list with one text to this text.
///
/// ```
/// use linchpin::transforms::string_array_to_string;
///
/// assert_eq!(string_array_to_string(vec!["red".to_owned()]), Ok("red".to_owned()));
/// assert!(string_array_to_string(Vec::new()).is_err());
/// ```
///
/// # Errors
/// For any other list.
#[transform(crate = crate)]
pub fn string_array_to_string(old: Vec<String>) -> Result<String, TransformError> {
    let [text] = <[String; 1]>::try_from(old).map_err(|_| "the list has not exactly one text")?;
    Ok(text)
}
