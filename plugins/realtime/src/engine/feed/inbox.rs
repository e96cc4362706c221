//! What a node has heard of a stream and a subscription has not taken yet.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Place;
use crate::engine::{Epoch, Frame};

/// The maximum number of waiting items.
const ITEMS: usize = 1024;
/// The maximum number of waiting bytes.
const BYTES: usize = 4 << 20;

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

/// What a subscription does next.
pub(super) enum Next {
    /// It compares itself with the top of its stream.
    Compare,
    Item(Item),
    Wait,
    End,
}

#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    doubt: bool,
    closed: bool,
    place: Option<Place>,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.items.len() >= ITEMS || self.bytes >= BYTES
    }

    fn retain(&mut self, keep: impl Fn(&Item) -> bool) {
        self.items.retain(keep);
        self.bytes = self.items.iter().map(Item::bytes).sum();
    }
}

impl Inbox {
    /// Adds an item. In a full inbox the frames make room, since they can be read again, and the
    /// oldest messages.
    pub(super) fn push(&self, item: Item) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        if waiting.is_full() {
            waiting.retain(|item| matches!(item, Item::Message(_)));
            waiting.doubt = true;
            while waiting.is_full() {
                let Some(oldest) = waiting.items.pop_front() else {
                    break;
                };
                waiting.bytes -= oldest.bytes();
            }
        }
        if let Item::Frame(frame) = &item {
            let new = Place::of(frame);
            waiting.place = Some(waiting.place.map_or(new, |place| place.max(new)));
        }
        waiting.bytes += item.bytes();
        waiting.items.push_back(item);
        drop(waiting);
        self.wake.notify_one();
    }

    pub(super) fn doubt(&self) {
        self.waiting.lock().doubt = true;
        self.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    /// The place up to which frames were heard of or read.
    pub(super) fn place(&self) -> Option<Place> {
        self.waiting.lock().place
    }

    /// The subscription has read up to a place: frames of the same epoch up to it are dropped, and
    /// so are all frames of the epoch that it has left.
    pub(super) fn settle(&self, at: Place, left: Option<Epoch>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|item| match item {
            Item::Message(_) => true,
            Item::Frame(frame) if frame.position.epoch == at.position.epoch => {
                frame.position.offset > at.position.offset
            }
            Item::Frame(frame) => left != Some(frame.position.epoch),
        });
        let newest = waiting.items.iter().rev().find_map(|item| match item {
            Item::Frame(frame) if frame.position.epoch == at.position.epoch => {
                Some(Place::of(frame))
            }
            _ => None,
        });
        waiting.place = Some(newest.unwrap_or(at));
    }

    /// The next thing to do; a comparison comes first.
    pub(super) fn take(&self) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Next::End;
        }
        if std::mem::take(&mut waiting.doubt) {
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
