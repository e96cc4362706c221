//! The received frames and messages of a stream that a subscription has not taken yet.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Place;
use crate::engine::{Epoch, Frame};

/// The maximum number of waiting items.
const MAX_ITEMS: usize = 1024;
/// The maximum number of waiting bytes.
const MAX_BYTES: usize = 4 << 20;

pub(super) enum Item {
    Frame(Frame),
    Message(Bytes),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.data.len(),
            Self::Message(message) => message.len(),
        }
    }
}

/// The next action of a subscription.
pub(super) enum Next {
    /// The subscription compares its place with the newest position of its stream, and reads the
    /// missing frames.
    Compare,
    Item(Item),
    Wait,
    End,
}

/// The inbox of one subscription.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    /// Whether the subscription must compare its place with the newest position of its stream.
    must_compare: bool,
    closed: bool,
    /// The place of the newest frame that was received or read.
    newest_frame: Option<Place>,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.items.len() >= MAX_ITEMS || self.bytes >= MAX_BYTES
    }

    fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        self.items.retain(keep);
        self.bytes = self.items.iter().map(Item::bytes).sum();
    }
}

impl Inbox {
    /// Adds an item. A full inbox first drops all its frames, which can be read again, and then its
    /// oldest messages.
    pub(super) fn push(&self, item: Item) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        if waiting.is_full() {
            waiting.retain(|item| matches!(item, Item::Message(_)));
            waiting.must_compare = true;
            while waiting.is_full() {
                let Some(oldest) = waiting.items.pop_front() else {
                    break;
                };
                waiting.bytes -= oldest.bytes();
            }
        }
        if let Item::Frame(frame) = &item {
            let new = Place::of(frame);
            let newest = waiting.newest_frame.map_or(new, |place| place.max(new));
            waiting.newest_frame = Some(newest);
        }
        waiting.bytes += item.bytes();
        waiting.items.push_back(item);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Makes the subscription compare its place with the newest position of its stream, and read
    /// the missing frames.
    pub(super) fn request_comparison(&self) {
        self.waiting.lock().must_compare = true;
        self.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    /// Returns the place of the newest frame that was received or read.
    pub(super) fn newest_frame(&self) -> Option<Place> {
        self.waiting.lock().newest_frame
    }

    /// Called after the subscription has read up to a place. Drops the frames of the same epoch up
    /// to this place, and all frames of `former_epoch`, the epoch before a reset.
    pub(super) fn drop_read_frames(&self, at: Place, former_epoch: Option<Epoch>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|item| match item {
            Item::Message(_) => true,
            Item::Frame(frame) if frame.position.epoch == at.position.epoch => {
                frame.position.offset > at.position.offset
            }
            Item::Frame(frame) => former_epoch != Some(frame.position.epoch),
        });
        let newest = waiting.items.iter().rev().find_map(|item| match item {
            Item::Frame(frame) if frame.position.epoch == at.position.epoch => {
                Some(Place::of(frame))
            }
            _ => None,
        });
        waiting.newest_frame = Some(newest.unwrap_or(at));
    }

    /// Returns the next action. A comparison comes first.
    pub(super) fn take(&self) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Next::End;
        }
        if std::mem::take(&mut waiting.must_compare) {
            return Next::Compare;
        }
        match waiting.items.pop_front() {
            Some(item) => {
                waiting.bytes -= item.bytes();
                Next::Item(item)
            }
            None => Next::Wait,
        }
    }

    /// Waits until something has changed.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }
}
