//! Stored frames of a stream, and frames to append to it.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use bytes::Bytes;
use linchpin::Timestamp;

use super::{Position, Stream};

/// The id of the event that a frame is about: printable ASCII without spaces, 1 to 64 bytes,
/// usually a uuid. It is unique within a stream.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EventId(Arc<str>);

impl EventId {
    /// Returns the id, or `None` if the text is not a valid id.
    pub fn new(text: &str) -> Option<Self> {
        let valid = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        valid.then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A hash of the id, equal in every process.
    pub fn fingerprint(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a leader of a consumer. Each new leader has a higher one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the consumer.
    pub consumer: Arc<str>,
    /// The number, below 2⁵³.
    pub number: u64,
}

/// A frame to append.
#[derive(Clone, Debug)]
pub struct Append {
    /// The stream.
    pub stream: Stream,
    /// The event; a second append of it returns the position of the first.
    pub event: EventId,
    /// The frame. The engine does not interpret its bytes.
    pub frame: Bytes,
    /// The leader that appends the frame; `None` for frames that no relay sends.
    pub fence: Option<Fence>,
}

/// A stored frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its place in the stream.
    pub position: Position,
    /// The event.
    pub event: EventId,
    /// The frame as appended.
    pub data: Bytes,
    /// When the engine stored it.
    pub at: Timestamp,
}

/// Frames that were read from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The position of the last frame of the stream. All frames are of its epoch.
    pub top: Position,
    /// The frames in order, without gaps.
    pub frames: Vec<Frame>,
    /// Whether frames between the requested offset and the first of `frames` (or the top) are no
    /// longer kept.
    pub gap: bool,
}

impl Slice {
    /// Whether the frames reach the top. If so, there is nothing more to read.
    pub fn reaches_top(&self) -> bool {
        self.frames
            .last()
            .is_none_or(|last| last.position.offset == self.top.offset)
    }
}
