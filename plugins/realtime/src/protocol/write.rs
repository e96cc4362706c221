//! Writes JSON objects member by member.

use serde::Serialize;

/// An object under construction. Members have the order of the calls.
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
        // Writing to memory cannot fail, and strings, numbers and lists of them have a JSON form.
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// Adds a member with any value that has a JSON form.
    pub(super) fn with(mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.key(key);
        self.value(value);
        self
    }

    /// Adds a member, unless the value is `None`.
    pub(super) fn maybe(self, key: &str, value: Option<&(impl Serialize + ?Sized)>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a member whose value is already JSON.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        self.key(key);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// Returns the text of the object without the last brace.
    pub(super) fn open(self) -> String {
        // All methods write UTF-8.
        String::from_utf8(self.0).unwrap_or_default()
    }

    /// Returns the text of the object.
    pub(super) fn close(mut self) -> String {
        self.0.push(b'}');
        self.open()
    }
}
