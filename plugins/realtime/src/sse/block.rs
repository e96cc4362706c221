//! The text format of server-sent events: blocks of lines. An empty line ends each block.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

use crate::protocol::{Close, Position, ResetReason, ServerFrame};

/// The time after which a browser connects again, in milliseconds.
pub const RETRY_MS: u64 = 3000;

/// Returns the first block. It sets the position and fires no event.
///
/// ```
/// use linchpin_realtime::{protocol::Position, sse::opening};
///
/// let block = opening(&Position::new("k3Xv", 41));
/// assert_eq!(block.as_str(), ": connected\nretry: 3000\nid: k3Xv-41\n\n");
/// ```
pub fn opening(position: &Position) -> ServerFrame {
    text(format!(
        ": connected\nretry: {RETRY_MS}\nid: {position}\n\n"
    ))
}

/// Returns a comment that keeps the connection open. `moved` is the new position, if events that
/// this connection may not see were skipped.
pub fn heartbeat(moved: Option<&Position>) -> ServerFrame {
    text(match moved {
        Some(position) => format!(": keep-alive\nid: {position}\n\n"),
        None => ": keep-alive\n\n".to_owned(),
    })
}

/// Returns the last block of a response that ends because the server stops.
pub fn draining() -> ServerFrame {
    text(format!("retry: {RETRY_MS}\n\n"))
}

/// Returns the event for a client that may have missed events. The client reads the state again and
/// continues from `position`.
pub fn reset(position: &Position, reason: ResetReason) -> ServerFrame {
    #[derive(Serialize)]
    struct Reset<'a> {
        epoch: &'a str,
        offset: u64,
        reason: &'a str,
    }
    let data = json(&Reset {
        epoch: &position.epoch,
        offset: position.offset,
        reason: reason.as_str(),
    });
    text(block("linchpin:reset", Some(position), &data))
}

/// Returns the event for a record that is no longer visible to the subscriber.
pub fn hidden(entity: &str, id: &str, position: &Position) -> ServerFrame {
    #[derive(Serialize)]
    struct Hidden<'a> {
        entity: &'a str,
        id: &'a str,
    }
    let data = json(&Hidden { entity, id });
    text(block("linchpin:hidden", Some(position), &data))
}

/// Returns the last block before the server ends the stream, with the reason.
pub fn close(why: Close) -> ServerFrame {
    #[derive(Serialize)]
    struct Closed {
        code: u16,
        reason: &'static str,
    }
    let data = json(&Closed {
        code: why.code(),
        reason: why.reason(),
    });
    text(block("linchpin:close", None, &data))
}

/// The blocks of an event without its position, which the engine assigns later. They are encoded
/// once and shared by all connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplacedBlocks {
    /// The blocks of the aliases and the first line of the last block.
    head: String,
    /// The line with the data of the last block.
    tail: String,
}

impl UnplacedBlocks {
    /// Creates the blocks of an event: first one for each alias without a position, then the block
    /// of `name` with the position. A client whose connection breaks between them gets all of them
    /// again.
    ///
    /// `payload` is JSON.
    pub fn new(name: &str, aliases: &[&str], payload: &str) -> Self {
        let payload = one_line(payload);
        let mut head = String::with_capacity((aliases.len() + 1) * 48);
        for alias in aliases {
            head.push_str(&block(alias, None, &payload));
        }
        head.push_str("event: ");
        head.push_str(name);
        head.push('\n');
        Self {
            head,
            tail: format!("data: {payload}\n\n"),
        }
    }

    /// Creates the blocks of an event whose payload is above the limit. The client reads the record
    /// itself.
    pub fn truncated(name: &str, aliases: &[&str], entity: &str, id: &str) -> Self {
        #[derive(Serialize)]
        struct Reference<'a> {
            truncated: bool,
            entity: &'a str,
            id: &'a str,
        }
        let data = json(&Reference {
            truncated: true,
            entity,
            id,
        });
        Self::new(name, aliases, &data)
    }

    /// Returns the blocks with their position.
    pub fn at(&self, position: &Position) -> ServerFrame {
        let mut out = String::with_capacity(self.head.len() + self.tail.len() + 48);
        out.push_str(&self.head);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "id: {position}");
        out.push_str(&self.tail);
        text(out)
    }
}

fn block(event: &str, id: Option<&Position>, data: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("event: {event}\n{id}data: {data}\n\n")
}

/// Removes the line ends of JSON text. JSON strings contain no line ends, so all of them are
/// between tokens.
fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) {
        Cow::Owned(json.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(json)
    }
}

fn json(value: &impl Serialize) -> String {
    // Strings and numbers always have a JSON form.
    serde_json::to_string(value).unwrap_or_default()
}

fn text(text: String) -> ServerFrame {
    ServerFrame::from_block(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position() -> Position {
        Position::new("k3Xv", 42)
    }

    /// Returns the events that a browser fires for a text: name, last id, data.
    fn fired(stream: &str) -> Vec<(String, String, String)> {
        let (mut events, mut id) = (Vec::new(), String::new());
        for block in stream.split("\n\n") {
            let (mut name, mut data) = (String::new(), None);
            for line in block.split(['\n', '\r']) {
                match line.split_once(": ") {
                    Some(("event", value)) => value.clone_into(&mut name),
                    Some(("id", value)) => value.clone_into(&mut id),
                    Some(("data", value)) => {
                        assert!(data.replace(value.to_owned()).is_none(), "one data line");
                    }
                    _ => {}
                }
            }
            events.extend(data.map(|data| (name, id.clone(), data)));
        }
        events
    }

    #[test]
    fn an_alias_is_sent_first_and_without_the_position() {
        let blocks = UnplacedBlocks::new("a:x.created", &["b:x.created"], r#"{"id":"1"}"#);
        let text = blocks.at(&position());
        assert_eq!(
            text.as_str(),
            "event: b:x.created\ndata: {\"id\":\"1\"}\n\nevent: a:x.created\nid: k3Xv-42\ndata: {\"id\":\"1\"}\n\n"
        );
        let events = fired(text.as_str());
        assert_eq!(
            events[0].1, "",
            "a break after the alias replays both blocks"
        );
        assert_eq!(events[1].1, "k3Xv-42");
    }

    #[test]
    fn line_ends_of_a_payload_never_end_a_line_of_the_stream() {
        let record = serde_json::json!({ "text": "a\nb\rc\u{2028}d\u{85}e😀\n\nevent: evil" });
        for payload in [
            serde_json::to_string(&record).unwrap(),
            serde_json::to_string_pretty(&record)
                .unwrap()
                .replace('\n', "\r\n"),
        ] {
            let text = UnplacedBlocks::new("x", &["y"], &payload).at(&position());
            let events = fired(text.as_str());
            assert_eq!(events.len(), 2);
            for (_, _, data) in events {
                let back: serde_json::Value = serde_json::from_str(&data).unwrap();
                assert_eq!(back, record);
            }
        }
    }

    #[test]
    fn blocks_without_an_event_fire_nothing() {
        for (block, expected) in [
            (heartbeat(None), ": keep-alive\n\n"),
            (
                heartbeat(Some(&position())),
                ": keep-alive\nid: k3Xv-42\n\n",
            ),
            (draining(), "retry: 3000\n\n"),
        ] {
            assert_eq!(block.as_str(), expected);
            assert!(fired(block.as_str()).is_empty());
        }
    }

    #[test]
    fn reserved_events_announce_resets_hidden_records_and_the_end() {
        for (block, name, id, data) in [
            (
                reset(&position(), ResetReason::OffsetAhead),
                "linchpin:reset",
                "k3Xv-42",
                r#"{"epoch":"k3Xv","offset":42,"reason":"offset_ahead"}"#,
            ),
            (
                hidden("threads", "t\n1", &position()),
                "linchpin:hidden",
                "k3Xv-42",
                r#"{"entity":"threads","id":"t\n1"}"#,
            ),
            (
                close(Close::SessionEnded),
                "linchpin:close",
                "",
                r#"{"code":4401,"reason":"session_ended"}"#,
            ),
            (
                UnplacedBlocks::truncated("x", &[], "threads", "t1").at(&position()),
                "x",
                "k3Xv-42",
                r#"{"truncated":true,"entity":"threads","id":"t1"}"#,
            ),
        ] {
            let expected = (name.to_owned(), id.to_owned(), data.to_owned());
            assert_eq!(fired(block.as_str()), [expected]);
        }
    }
}
