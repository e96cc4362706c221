//! The events at the last offsets that a subscription has seen.

use std::collections::VecDeque;

use super::Place;
use crate::engine::{EventId, Position};

/// How many events are remembered.
const REMEMBERED: usize = 256;

/// The result of comparing a received frame with the event that was seen at its offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The same event: the frame is a duplicate.
    Same,
    /// Another event: the stream has lost data and has used the offset again.
    Other,
    /// The offset is no longer remembered.
    Forgotten,
}

/// The current place of a subscription, with hashes of the last events up to it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) position: Position,
    /// The hashes of the last events. The last hash belongs to the offset of `position`.
    events: VecDeque<u64>,
}

impl Seen {
    pub(super) fn new(position: Position, last: Option<&EventId>) -> Self {
        Self {
            position,
            events: last.map(EventId::fingerprint).into_iter().collect(),
        }
    }

    pub(super) fn place(&self) -> Place {
        Place {
            position: self.position,
            event: self.events.back().copied(),
        }
    }

    /// Moves the place forward by one frame.
    pub(super) fn advance(&mut self, event: &EventId) {
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(event.fingerprint());
        self.position.offset += 1;
    }

    /// Compares a frame with the event that was seen at its offset. The offset is not above the
    /// current place.
    pub(super) fn compare(&self, offset: u64, event: &EventId) -> Known {
        let back = usize::try_from(self.position.offset - offset).unwrap_or(usize::MAX);
        match self.events.iter().rev().nth(back) {
            None => Known::Forgotten,
            Some(seen) if *seen == event.fingerprint() => Known::Same,
            Some(_) => Known::Other,
        }
    }
}
