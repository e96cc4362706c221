//! The events at the last offsets that a subscription has seen.

use std::collections::VecDeque;

use super::Place;
use crate::engine::{EventId, Position};

/// How many events are remembered.
const REMEMBERED: usize = 256;

/// What an offset at or below the own place says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The same event: a double.
    Same,
    /// Another event: the stream has lost data and has used the offset again.
    Other,
    /// The offset is no longer remembered.
    Forgotten,
}

/// The own place in a stream, with hashes of the last events up to it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) position: Position,
    /// The last one belongs to the offset of `position`.
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

    /// Moves on by one frame.
    pub(super) fn advance(&mut self, event: &EventId) {
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(event.fingerprint());
        self.position.offset += 1;
    }

    pub(super) fn known(&self, offset: u64, event: &EventId) -> Known {
        let back = usize::try_from(self.position.offset - offset).unwrap_or(usize::MAX);
        match self.events.iter().rev().nth(back) {
            None => Known::Forgotten,
            Some(seen) if *seen == event.fingerprint() => Known::Same,
            Some(_) => Known::Other,
        }
    }
}
