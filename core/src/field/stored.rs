//! Stored values: their canonical form, and numbers that no field can store.

use std::borrow::Cow;

use linchpin_vocabulary::limit::MAX_INTEGER;

use super::{FieldDesc, Kind, Rules};
use crate::{Problem, Value};

/// The reason why a value does not have its field's type. It becomes a [`Problem`] at the position
/// of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// A stable code, such as `type` or `format`.
    pub code: &'static str,
    /// A sentence for people. It never contains the value.
    pub message: Cow<'static, str>,
}

impl Flaw {
    pub(crate) const fn new(code: &'static str, message: &'static str) -> Self {
        Self {
            code,
            message: Cow::Borrowed(message),
        }
    }

    /// Returns the problem at a path, such as `query:score[gt]` or `path:slug`.
    pub fn at(self, path: impl Into<String>) -> Problem {
        Problem::new(path, self.code, self.message)
    }
}

pub(crate) const TOO_GREAT: Flaw = Flaw::new("range", "must be within ±9007199254740991");
pub(crate) const NOT_FINITE: Flaw = Flaw::new("range", "must be a finite number");

/// Returns the problem of a number that JSON clients cannot represent: an integer outside
/// ±(2^53−1), or a number that is not finite.
#[doc(hidden)]
pub fn out_of_range(value: &Value) -> Option<Flaw> {
    match value {
        Value::Int(n) if !(-MAX_INTEGER..=MAX_INTEGER).contains(n) => Some(TOO_GREAT),
        Value::Float(n) if !n.is_finite() => Some(NOT_FINITE),
        _ => None,
    }
}

/// Returns the stored form of a text. A UUID is converted to lower case, so that it has one form.
#[doc(hidden)]
pub fn canonical(rules: &Rules, mut text: String) -> String {
    if rules.format == Some("uuid") {
        text.make_ascii_lowercase();
    }
    text
}

/// Returns the stored form of a value from code.
#[doc(hidden)]
pub fn canonical_value(field: &FieldDesc, value: Value) -> Value {
    let rules = if matches!(field.kind, Kind::StringArray) {
        field.rules.each.unwrap_or(&Rules::NONE)
    } else {
        field.rules
    };
    match value {
        Value::Text(text) => Value::Text(canonical(rules, text)),
        Value::Strings(texts) => Value::Strings(
            texts
                .into_iter()
                .map(|text| canonical(rules, text))
                .collect(),
        ),
        other => other,
    }
}
