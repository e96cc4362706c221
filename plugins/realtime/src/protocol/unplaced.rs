//! Durable frames whose offset the engine has not assigned yet.

use super::ServerFrame;
use super::server::RecordReference;
use super::write::Object;

/// A durable frame of a room without its offset, which the engine assigns.
///
/// The frame is encoded once. [`at`](Self::at) only adds the offset at its end.
///
/// ```
/// use linchpin_realtime::protocol::UnplacedFrame;
///
/// let frame = UnplacedFrame::new("note.created", "notes:live", "{}", "e1", "2026-01-02T03:04:05.000Z");
/// assert!(frame.at(41).as_str().ends_with(r#""at":"2026-01-02T03:04:05.000Z","offset":41}"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplacedFrame(String);

impl UnplacedFrame {
    /// Creates the frame of an event. `payload` is JSON, `id` is the event's id, and `at` is the
    /// time of the commit.
    pub fn new(event: &str, room: &str, payload: &str, id: &str, at: &str) -> Self {
        Self(
            Object::event(event)
                .with("room", room)
                .raw("payload", payload)
                .with("id", id)
                .with("at", at)
                .open(),
        )
    }

    /// Creates the frame of an event whose payload is above the limit. The client reads the record
    /// itself.
    pub fn truncated(
        event: &str,
        room: &str,
        entity_and_record: (&str, &str),
        id: &str,
        at: &str,
    ) -> Self {
        let (entity, record) = entity_and_record;
        Self(
            Object::event(event)
                .with("room", room)
                .raw("payload", "null")
                .with("truncated", &true)
                .with("payload_ref", &RecordReference { entity, id: record })
                .with("id", id)
                .with("at", at)
                .open(),
        )
    }

    /// Returns the frame with its offset.
    pub fn at(&self, offset: u64) -> ServerFrame {
        const END: &str = ",\"offset\":";
        // An offset has at most 20 digits.
        let mut text = String::with_capacity(self.0.len() + END.len() + 21);
        text.push_str(&self.0);
        text.push_str(END);
        text.push_str(itoa::Buffer::new().format(offset));
        text.push('}');
        ServerFrame::from_text(&text)
    }
}
