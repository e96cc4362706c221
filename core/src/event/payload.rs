//! The JSON of an event: kept as text, and parsed when somebody reads a member.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// JSON that is parsed at its first use.
///
/// A consumer that forwards an event uses the [text](Self::text), and nothing is parsed. All
/// consumers of an event share the text and the parsed value. It dereferences to
/// [`serde_json::Value`]:
///
/// ```
/// # use linchpin::event::Payload;
/// let payload = Payload::from(serde_json::json!({ "title": "Ada" }));
/// assert_eq!(payload["title"], "Ada");
/// assert_eq!(payload.text(), r#"{"title":"Ada"}"#);
/// ```
#[derive(Clone)]
pub struct Payload(Arc<Lazy>);

struct Lazy {
    whole: Arc<str>,
    /// The place of the JSON in `whole`.
    at: Range<usize>,
    /// The place of an object with further members in `whole`.
    beyond: Option<Range<usize>>,
    value: OnceLock<Value>,
}

impl Payload {
    /// JSON within a text that others share. `beyond` is the place of an object whose members are
    /// added to those at `at`.
    pub(crate) fn within(whole: &Arc<str>, at: Range<usize>, beyond: Option<Range<usize>>) -> Self {
        Self(Arc::new(Lazy {
            whole: Arc::clone(whole),
            at,
            beyond,
            value: OnceLock::new(),
        }))
    }

    /// JSON from a text, which is known to be valid.
    pub(crate) fn of(text: &str) -> Self {
        Self::within(&Arc::from(text), 0..text.len(), None)
    }

    /// `null`.
    pub(crate) fn null() -> Self {
        static NULL: OnceLock<Payload> = OnceLock::new();
        NULL.get_or_init(|| Self::of("null")).clone()
    }

    fn part(&self, at: &Range<usize>) -> &str {
        self.0.whole.get(at.clone()).unwrap_or("null")
    }

    /// Returns the JSON as text.
    pub fn text(&self) -> Cow<'_, str> {
        let own = self.part(&self.0.at);
        let Some(beyond) = &self.0.beyond else {
            return Cow::Borrowed(own);
        };
        let beyond = self.part(beyond);
        match (own, beyond) {
            (_, "{}") => Cow::Borrowed(own),
            ("{}", _) => Cow::Borrowed(beyond),
            // Both are objects with members.
            _ => Cow::Owned([&own[..own.len() - 1], ",", &beyond[1..]].concat()),
        }
    }

    /// Returns the parsed value.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            // It was written by the framework, or checked when it was read.
            serde_json::from_str(&self.text()).unwrap_or(Value::Null)
        })
    }

    /// Returns the parsed value; clones it if other consumers have it too.
    pub fn into_value(self) -> Value {
        match Arc::try_unwrap(self.0) {
            Ok(lazy) if lazy.value.get().is_some() => lazy.value.into_inner().unwrap_or_default(),
            Ok(lazy) => Self(Arc::new(lazy)).value().clone(),
            Err(shared) => Self(shared).value().clone(),
        }
    }
}

impl Deref for Payload {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        let payload = Self::of(&value.to_string());
        // It is new, so the place is empty.
        let _ = payload.0.value.set(value);
        payload
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl PartialEq<Value> for Payload {
    fn eq(&self, other: &Value) -> bool {
        self.value() == other
    }
}

impl PartialEq<Payload> for Value {
    fn eq(&self, other: &Payload) -> bool {
        self == other.value()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl serde::Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::Payload;

    #[test]
    fn members_beyond_the_payload_are_added_to_it() {
        let cases = [
            (
                r#"{"a":1}"#,
                r#"{"b":{"c":2}}"#,
                json!({"a": 1, "b": {"c": 2}}),
            ),
            (
                r#"{"a":{"b":{}}}"#,
                r#"{"c":null}"#,
                json!({"a": {"b": {}}, "c": null}),
            ),
            ("{}", r#"{"b":2}"#, json!({"b": 2})),
            (r#"{"a":{}}"#, "{}", json!({"a": {}})),
        ];
        for (own, beyond, both) in cases {
            let whole: Arc<str> = Arc::from([own, beyond].concat());
            let state = Payload::within(&whole, 0..own.len(), Some(own.len()..whole.len()));
            assert_eq!(state.value(), &both);
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&state.text()).ok(),
                Some(both)
            );
            let payload = Payload::within(&whole, 0..own.len(), None);
            assert_eq!(payload.text(), own);
        }
    }

    #[test]
    fn a_value_is_taken_out_or_cloned() {
        let payload = Payload::from(json!([1]));
        let shared = payload.clone();
        assert_eq!(payload.into_value(), json!([1]));
        assert_eq!(Payload::of("[1]"), shared);
        assert_eq!(shared.into_value(), json!([1]));
        assert_eq!(Payload::of("[1]").into_value(), json!([1]));
    }
}
