//! Names of subjects and of `JetStream` streams.

use std::fmt::Write as _;

use crate::engine::{EngineError, NodeId, Result};

/// The maximum length of a prefix.
const MAX_PREFIX: usize = 32;

/// The names of subjects and streams. A room's name is encoded as one token of a subject, so it
/// cannot contain a separator or a wildcard.
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Result<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if !(1..=MAX_PREFIX).contains(&prefix.len()) || !prefix.bytes().all(plain) {
            return Err(EngineError::failed(format!(
                "the prefix `{prefix}` of the NATS engine must have 1 to {MAX_PREFIX} letters, \
                 digits, `_` and `-`"
            )));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
        })
    }

    /// The `JetStream` stream of positions and frames.
    pub(super) fn frames_stream(&self) -> String {
        format!("{}_frames", self.prefix)
    }

    /// The `JetStream` stream of leases.
    pub(super) fn users_stream(&self) -> String {
        format!("{}_users", self.prefix)
    }

    /// Returns the subject of a stream's position and frames; without a name, the pattern for all.
    pub(super) fn frames(&self, stream: Option<&str>) -> String {
        self.subject("frames", stream)
    }

    /// The subject of the leases of a stream.
    pub(super) fn users(&self, stream: Option<&str>) -> String {
        self.subject("users", stream)
    }

    /// The subject on which nodes receive the frames and messages of a stream.
    pub(super) fn live(&self, stream: Option<&str>) -> String {
        self.subject("live", stream)
    }

    /// The subject of the control messages for a node.
    pub(super) fn node(&self, node: &NodeId) -> String {
        format!("{}.control.{node}", self.prefix)
    }

    /// The subject of the control messages for all nodes.
    pub(super) fn all_nodes(&self) -> String {
        format!("{}.control.all", self.prefix)
    }

    /// The pattern for all control messages. A single subscription keeps the order between messages
    /// to one node and to all nodes.
    pub(super) fn controls(&self) -> String {
        format!("{}.control.*", self.prefix)
    }

    /// Returns a subject of a stream; without a name, the pattern for all streams.
    fn subject(&self, kind: &str, stream: Option<&str>) -> String {
        let token = stream.map_or_else(|| ">".to_owned(), token);
        format!("{}.{kind}.{token}", self.prefix)
    }
}

/// Encodes a name as a token of a subject. ASCII letters, digits, `-`, `_`, `~`, `:` and `%` stay.
/// Other bytes are escaped as `=` and two hexadecimal digits.
fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b':' | b'%') {
            token.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(token, "={byte:02X}");
        }
    }
    if token.is_empty() {
        token.push('=');
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_token_without_wildcards() {
        let names = Names::new("app").unwrap();
        for (name, expected) in [
            ("tasks:1:live", "app.frames.tasks:1:live"),
            ("a.b", "app.frames.a=2Eb"),
            ("*", "app.frames.=2A"),
            (">", "app.frames.=3E"),
            ("a b\r\nPUB x", "app.frames.a=20b=0D=0APUB=20x"),
            ("=2E", "app.frames.=3D2E"),
            ("ü", "app.frames.=C3=BC"),
            ("", "app.frames.="),
        ] {
            assert_eq!(names.frames(Some(name)), expected);
        }
        assert_eq!(names.frames(None), "app.frames.>");
    }

    #[test]
    fn a_prefix_with_a_separator_or_a_wildcard_is_refused() {
        for wrong in ["", "a.b", "*", ">", "a b", "a/b", &"x".repeat(33)] {
            assert!(Names::new(wrong).is_err(), "{wrong}");
        }
    }
}
