//! Names of events on the wire: their grammar, and the names that the protocol itself uses.
//!
//! ```
//! use linchpin_vocabulary::event::{self, Flaw};
//!
//! assert_eq!(event::check("tasks.tasks.created"), Ok(()));
//! assert_eq!(event::check("ack"), Err(Flaw::Reserved));
//! assert_eq!(event::check("Created"), Err(Flaw::Grammar));
//! ```

/// The maximum length of a name, in bytes.
pub const MAX_LENGTH: usize = 128;

/// The names of the protocol's own frames, and of events that clients raise themselves.
pub const RESERVED: [&str; 24] = [
    "message",
    "open",
    "error",
    "close",
    "*",
    "connected",
    "disconnected",
    "reconnecting",
    "reconnectFailed",
    "queueOverflow",
    "subscribed",
    "subscribe_denied",
    "unsubscribed",
    "ack",
    "presence",
    "presence_join",
    "presence_leave",
    "recovered",
    "recover_failed",
    "reset",
    "hidden",
    "ping",
    "pong",
    "draining",
];

/// The names of the protocol that contain a colon. `auth:` and `linchpin:` reserve every name that
/// begins with them.
pub const RESERVED_BEGINNINGS: [&str; 2] = ["auth:", "linchpin:"];

/// A reserved name with a colon, which [`RESERVED`] does not contain.
const SOCKET_ERROR: &str = "ws:error";

/// The reason why a text is not a valid event name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not match `[a-z][A-Za-z0-9]*([.:_-][A-Za-z0-9]+)*`.
    Grammar,
    /// It is longer than [`MAX_LENGTH`] bytes.
    Length,
    /// The protocol uses it.
    Reserved,
}

/// Checks the name of an event.
///
/// # Errors
/// The first flaw: the grammar, then the length, then the reserved names.
pub const fn check(name: &str) -> Result<(), Flaw> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || !bytes[0].is_ascii_lowercase() {
        // `*` is reserved, but does not match the grammar either.
        return Err(if is_reserved(name) {
            Flaw::Reserved
        } else {
            Flaw::Grammar
        });
    }
    let (mut at, mut separated) = (1, false);
    while at < bytes.len() {
        if bytes[at].is_ascii_alphanumeric() {
            separated = false;
        } else if !separated && matches!(bytes[at], b'.' | b':' | b'_' | b'-') {
            separated = true;
        } else {
            return Err(Flaw::Grammar);
        }
        at += 1;
    }
    if separated {
        return Err(Flaw::Grammar);
    }
    if bytes.len() > MAX_LENGTH {
        return Err(Flaw::Length);
    }
    if is_reserved(name) {
        return Err(Flaw::Reserved);
    }
    Ok(())
}

/// Whether the protocol uses a name.
#[must_use]
pub const fn is_reserved(name: &str) -> bool {
    let mut at = 0;
    while at < RESERVED.len() {
        if begins(name, RESERVED[at]) && name.len() == RESERVED[at].len() {
            return true;
        }
        at += 1;
    }
    let mut at = 0;
    while at < RESERVED_BEGINNINGS.len() {
        if begins(name, RESERVED_BEGINNINGS[at]) {
            return true;
        }
        at += 1;
    }
    begins(name, SOCKET_ERROR) && name.len() == SOCKET_ERROR.len()
}

const fn begins(name: &str, with: &str) -> bool {
    let (name, with) = (name.as_bytes(), with.as_bytes());
    if name.len() < with.len() {
        return false;
    }
    let mut at = 0;
    while at < with.len() {
        if name[at] != with[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        for name in [
            "typing",
            "threadPinned",
            "tasks.tasks.created",
            "notifications:notification.created",
            "a-b_c.d:e",
            "a1.2b",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in [
            "", "A", "1a", "a.", "a..b", ".a", "a b", "é", "aé", "a/b", "a\n", "_a",
        ] {
            assert_eq!(check(name), Err(Flaw::Grammar), "{name:?}");
        }
    }

    #[test]
    fn names_of_the_protocol_are_reserved() {
        for name in RESERVED {
            assert_eq!(check(name), Err(Flaw::Reserved), "{name}");
        }
        for name in ["ws:error", "auth:error", "auth:anything", "linchpin:reset"] {
            assert_eq!(check(name), Err(Flaw::Reserved), "{name}");
        }
        for name in ["acks", "ac", "ws:errors", "auth", "author:x", "resets"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_have_at_most_128_bytes() {
        assert_eq!(check(&"a".repeat(128)), Ok(()));
        assert_eq!(check(&"a".repeat(129)), Err(Flaw::Length));
    }
}
