//! The JSON of an event: stored as text, and parsed when a consumer first reads a member.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// JSON that is parsed at its first use.
///
/// A consumer that forwards an event uses the [text](Self::text), and nothing is parsed. All
/// consumers of an event share the text and the parsed value. A payload dereferences to
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
    /// The text that several payloads share.
    shared_text: Arc<str>,
    /// The range of the JSON in `shared_text`.
    at: Range<usize>,
    /// The range of an object with further members in `shared_text`.
    extra: Option<Range<usize>>,
    value: OnceLock<Value>,
}

impl Payload {
    /// JSON within a text that several payloads share. `extra` is the range of an object whose
    /// members are added to those at `at`.
    pub(crate) fn within(
        shared_text: &Arc<str>,
        at: Range<usize>,
        extra: Option<Range<usize>>,
    ) -> Self {
        Self(Arc::new(Lazy {
            shared_text: Arc::clone(shared_text),
            at,
            extra,
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

    /// Returns a part of the shared text.
    fn part(&self, at: &Range<usize>) -> &str {
        self.0.shared_text.get(at.clone()).unwrap_or("null")
    }

    /// Returns the JSON as text.
    pub fn text(&self) -> Cow<'_, str> {
        let own = self.part(&self.0.at);
        let Some(extra) = &self.0.extra else {
            return Cow::Borrowed(own);
        };
        let extra = self.part(extra);
        match (own, extra) {
            (_, "{}") => Cow::Borrowed(own),
            ("{}", _) => Cow::Borrowed(extra),
            // Both are objects with members.
            _ => Cow::Owned([&own[..own.len() - 1], ",", &extra[1..]].concat()),
        }
    }

    /// Returns the parsed value.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            // The text is valid: the framework wrote the text, or checked it while reading it.
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
        // The payload is new, so its value is not set yet.
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
    fn extra_members_are_added_to_the_payload() {
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
        for (own, extra, both) in cases {
            let shared_text: Arc<str> = Arc::from([own, extra].concat());
            let state = Payload::within(
                &shared_text,
                0..own.len(),
                Some(own.len()..shared_text.len()),
            );
            assert_eq!(state.value(), &both);
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&state.text()).ok(),
                Some(both)
            );
            let payload = Payload::within(&shared_text, 0..own.len(), None);
            assert_eq!(payload.text(), own);
        }
    }

    #[test]
    fn a_shared_value_is_cloned() {
        let payload = Payload::from(json!([1]));
        let shared = payload.clone();
        assert_eq!(payload.into_value(), json!([1]));
        assert_eq!(Payload::of("[1]"), shared);
        assert_eq!(shared.into_value(), json!([1]));
        assert_eq!(Payload::of("[1]").into_value(), json!([1]));
    }
}
