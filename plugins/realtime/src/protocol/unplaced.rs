//! Durable frames before the engine has given them an offset.

use super::ServerFrame;
use super::server::Hidden;
use super::write::Object;

/// A durable frame of a room without its offset, which the engine assigns.
///
/// The frame is written once; [`at`](Self::at) adds the offset at its end and serialises nothing
/// again.
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
    /// The frame of an event: `payload` is JSON, `id` the event's id, `at` the instant of the
    /// commit.
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

    /// The frame of an event whose payload is above the limit: the client reads the record itself.
    pub fn truncated(event: &str, room: &str, of: (&str, &str), id: &str, at: &str) -> Self {
        let (entity, record) = of;
        Self(
            Object::event(event)
                .with("room", room)
                .raw("payload", "null")
                .with("truncated", &true)
                .with("payload_ref", &Hidden { entity, id: record })
                .with("id", id)
                .with("at", at)
                .open(),
        )
    }

    /// The frame at its offset.
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
