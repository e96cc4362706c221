//! Writes JSON objects member by member.

use serde::Serialize;

/// An object under construction. Members come in the order of the calls.
pub(super) struct Object(Vec<u8>);

impl Object {
    /// `{"event":"<event>"`
    pub(super) fn event(event: &str) -> Self {
        let mut object = Self(Vec::with_capacity(128));
        object.0.extend_from_slice(b"{\"event\":");
        object.value(event);
        object
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing to memory does not fail, nor do texts, numbers and lists of them.
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// A member of any value that has a form in JSON.
    pub(super) fn with(mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.key(key);
        self.value(value);
        self
    }

    /// A member that is absent if the value is.
    pub(super) fn maybe(self, key: &str, value: Option<&(impl Serialize + ?Sized)>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// A member that is JSON already.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        self.key(key);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// The text of the object, without the last brace.
    pub(super) fn open(self) -> String {
        // Everything above writes UTF-8.
        String::from_utf8(self.0).unwrap_or_default()
    }

    /// The text of the object.
    pub(super) fn close(mut self) -> String {
        self.0.push(b'}');
        self.open()
    }
}
