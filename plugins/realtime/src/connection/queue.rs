//! Frames that wait for a client.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::protocol::ServerFrame;

/// Whether a frame may be dropped for a slow client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// It must not be dropped: the client gets it, or the connection ends.
    Durable,
    /// It may be dropped. Of frames with an equal key, a full queue keeps only the newest.
    Ephemeral(EphemeralKey),
}

/// The room, event and sender of an ephemeral frame. Clones share the strings.
pub type EphemeralKey = Arc<(String, String, String)>;

impl Class {
    /// Returns the class of an ephemeral frame.
    pub fn ephemeral(room: &str, event: &str, sender: &str) -> Self {
        Self::Ephemeral(Arc::new((
            room.to_owned(),
            event.to_owned(),
            sender.to_owned(),
        )))
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The frame is in the queue.
    Queued,
    /// The frame was dropped: it is ephemeral and the client is slow.
    Dropped,
    /// The connection ends, so the frame is not sent.
    Closed,
}

/// A bounded queue of frames.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<(ServerFrame, Option<EphemeralKey>)>,
    bytes: usize,
    /// The number of ephemeral frames in it.
    ephemeral: usize,
}

/// The error for a durable frame that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// The changes that a push made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Whether the frame is in the queue.
    pub(super) queued: bool,
    /// The number of ephemeral frames that were dropped, this one included.
    pub(super) dropped: u64,
    /// The bytes of the dropped frames that were in the queue.
    pub(super) freed: usize,
}

/// The number of slots that an empty queue may keep allocated. With more, it frees its memory.
const MAX_IDLE_SLOTS: usize = 4;

impl Queue {
    /// Adds a frame. If it does not fit, ephemeral frames are dropped: first each one with a newer
    /// frame of the same key, then the oldest ones.
    pub(super) fn push(
        &mut self,
        frame: ServerFrame,
        class: Class,
        max_frames: usize,
        max_bytes: usize,
    ) -> Result<Change, Overflow> {
        let mut change = Change {
            queued: true,
            ..Change::default()
        };
        let fits = |queue: &Self| {
            queue.frames.len() < max_frames
                && (queue.bytes + frame.len() <= max_bytes || queue.frames.is_empty())
        };
        let key = match class {
            Class::Durable => None,
            Class::Ephemeral(key) => Some(key),
        };
        if !fits(self) && self.ephemeral > 0 {
            self.drop_superseded(key.as_ref(), &mut change);
            while !fits(self) && self.ephemeral > 0 {
                self.drop_oldest(&mut change);
            }
        }
        if !fits(self) {
            if key.is_none() {
                return Err(Overflow);
            }
            change.queued = false;
            change.dropped += 1;
            return Ok(change);
        }
        self.bytes += frame.len();
        self.ephemeral += usize::from(key.is_some());
        self.frames.push_back((frame, key));
        Ok(change)
    }

    /// Drops each ephemeral frame with a newer frame of the same key. `newest` is the key of the
    /// new frame, which is not in the queue yet.
    fn drop_superseded(&mut self, newest: Option<&EphemeralKey>, change: &mut Change) {
        let mut seen: HashSet<EphemeralKey> = newest.cloned().into_iter().collect();
        let mut at = self.frames.len();
        let mut kept = VecDeque::with_capacity(at);
        while at > 0 {
            at -= 1;
            let Some((frame, key)) = self.frames.pop_back() else {
                break;
            };
            match &key {
                Some(key) if !seen.insert(Arc::clone(key)) => self.forget(&frame, change),
                _ => kept.push_front((frame, key)),
            }
        }
        self.frames = kept;
    }

    fn drop_oldest(&mut self, change: &mut Change) {
        let oldest = self.frames.iter().position(|(_, key)| key.is_some());
        match oldest.and_then(|at| self.frames.remove(at)) {
            Some((frame, _)) => self.forget(&frame, change),
            None => self.ephemeral = 0,
        }
    }

    /// Updates the totals and the change after an ephemeral frame was dropped.
    fn forget(&mut self, frame: &ServerFrame, change: &mut Change) {
        self.bytes -= frame.len();
        self.ephemeral -= 1;
        change.dropped += 1;
        change.freed += frame.len();
    }

    /// Takes the oldest frame.
    pub(super) fn pop(&mut self) -> Option<ServerFrame> {
        let (frame, key) = self.frames.pop_front()?;
        self.bytes -= frame.len();
        self.ephemeral -= usize::from(key.is_some());
        if self.frames.is_empty() && self.frames.capacity() > MAX_IDLE_SLOTS {
            self.frames = VecDeque::new();
        }
        Some(frame)
    }

    /// Returns the bytes of the frames, the oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Bytes> {
        self.frames.iter().map(|(frame, _)| frame.bytes())
    }

    /// Removes all frames. Returns the number of their bytes.
    pub(super) fn clear(&mut self) -> usize {
        self.frames = VecDeque::new();
        self.ephemeral = 0;
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether half of the frames and half of the bytes are free.
    pub(super) fn is_half_free(&self, max_frames: usize, max_bytes: usize) -> bool {
        self.frames.is_empty() || (self.frames.len() < max_frames / 2 && self.bytes < max_bytes / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame of this length.
    fn frame(name: &str, bytes: usize) -> ServerFrame {
        let empty = ServerFrame::ephemeral(name, "", "0", None).len();
        let payload = "1".repeat(bytes + 1 - empty);
        let frame = ServerFrame::ephemeral(name, "", &payload, None);
        assert_eq!(frame.len(), bytes);
        frame
    }

    fn typing(from: &str) -> Class {
        Class::ephemeral("r", "typing", from)
    }

    fn names(queue: &mut Queue) -> String {
        let mut names = String::new();
        while let Some(frame) = queue.pop() {
            let value: serde_json::Value = serde_json::from_str(frame.as_str()).unwrap();
            names.push_str(value["event"].as_str().unwrap());
        }
        assert_eq!((queue.bytes, queue.ephemeral), (0, 0));
        names
    }

    #[test]
    fn durable_frames_are_kept_up_to_the_limits_of_frames_and_bytes() {
        let mut queue = Queue::default();
        for _ in 0..4 {
            queue
                .push(frame("a", 100), Class::Durable, 4, 1_000)
                .unwrap();
        }
        assert_eq!(
            queue.push(frame("b", 100), Class::Durable, 4, 1_000),
            Err(Overflow)
        );
        assert_eq!(names(&mut queue), "aaaa");
        for _ in 0..10 {
            queue
                .push(frame("a", 100), Class::Durable, 99, 1_000)
                .unwrap();
        }
        assert_eq!(
            queue.push(frame("b", 100), Class::Durable, 99, 1_000),
            Err(Overflow)
        );
        assert_eq!(names(&mut queue), "aaaaaaaaaa");
        // An empty queue accepts one frame that alone exceeds the limit in bytes.
        queue
            .push(frame("a", 2_000), Class::Durable, 4, 1_000)
            .unwrap();
        assert_eq!(
            queue.push(frame("b", 100), Class::Durable, 4, 1_000),
            Err(Overflow)
        );
    }

    #[test]
    fn a_queue_with_space_keeps_all_ephemeral_frames() {
        let mut queue = Queue::default();
        for name in ["a", "b", "c"] {
            let change = queue.push(frame(name, 100), typing("x"), 4, 1_000).unwrap();
            assert_eq!((change.queued, change.dropped), (true, 0));
        }
        assert_eq!(names(&mut queue), "abc");
    }

    #[test]
    fn a_full_queue_keeps_the_newest_ephemeral_frame_of_each_sender() {
        let mut queue = Queue::default();
        for (name, from) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")] {
            queue
                .push(frame(name, 100), typing(from), 4, 1_000)
                .unwrap();
        }
        let change = queue
            .push(frame("e", 100), Class::Durable, 4, 1_000)
            .unwrap();
        assert_eq!((change.dropped, change.freed), (2, 200));
        assert_eq!(names(&mut queue), "cde");
        // The pushed frame is the newest of its key.
        for (name, from) in [("a", "x"), ("b", "y")] {
            queue
                .push(frame(name, 100), typing(from), 2, 1_000)
                .unwrap();
        }
        queue.push(frame("c", 100), typing("x"), 2, 1_000).unwrap();
        assert_eq!(names(&mut queue), "bc");
    }

    #[test]
    fn the_oldest_ephemeral_frames_are_dropped_for_durable_ones() {
        let mut queue = Queue::default();
        queue
            .push(frame("a", 100), Class::Durable, 4, 1_000)
            .unwrap();
        for (name, from) in [("b", "x"), ("c", "y"), ("d", "z")] {
            queue
                .push(frame(name, 100), typing(from), 4, 1_000)
                .unwrap();
        }
        let push = |queue: &mut Queue, name| queue.push(frame(name, 100), Class::Durable, 4, 1_000);
        assert_eq!(push(&mut queue, "e").unwrap().dropped, 1);
        assert_eq!(push(&mut queue, "f").unwrap().dropped, 1);
        assert_eq!(push(&mut queue, "g").unwrap().dropped, 1);
        assert_eq!(push(&mut queue, "h"), Err(Overflow));
        // A queue full of durable frames drops a new ephemeral frame.
        let change = queue.push(frame("i", 100), typing("x"), 4, 1_000).unwrap();
        assert_eq!((change.queued, change.dropped), (false, 1));
        assert_eq!(names(&mut queue), "aefg");
    }

    #[test]
    fn an_empty_queue_holds_no_memory() {
        let mut queue = Queue::default();
        for _ in 0..256 {
            queue
                .push(frame("a", 100), Class::Durable, 256, 1 << 20)
                .unwrap();
        }
        names(&mut queue);
        assert_eq!(queue.frames.capacity(), 0);
    }
}
