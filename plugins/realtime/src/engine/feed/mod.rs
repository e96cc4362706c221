//! Delivery of received frames to subscribers: order, gaps, duplicates, lost data.
//!
//! An engine may receive a frame twice, late, or not at all. It passes received frames to its
//! [`Feeds`]. A [`Subscription`] compares each frame with its own place: it delivers the next one,
//! drops a duplicate, reads missing frames from the [`Source`], and reports a reset if the stream
//! has lost its continuity.

mod catch_up;
mod inbox;
mod seen;
mod subscription;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use linchpin::{BoxFuture, Timestamp};
use parking_lot::Mutex;

use self::inbox::{Inbox, Item};
pub use self::subscription::{Delivery, ResetReason, Subscription};
use super::{Clock, EngineError, Epoch, EventId, Frame, Position, Result, Slice, Stream};

/// The stored part of a stream, as an engine reads it.
#[derive(Clone, Debug)]
pub struct Entries {
    /// The position of the last frame.
    pub top: Position,
    /// The event of the last frame of this epoch, if there was one.
    pub last: Option<EventId>,
    /// The stored frames after the requested offset, in order. If older frames are gone, the first
    /// of them has a higher offset than requested.
    pub frames: Vec<Frame>,
}

/// The store from which a [`Subscription`] reads frames that it has not received.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// Begins to listen to a stream. After the method has returned, the engine passes every frame
    /// that it receives for this stream to [`Feeds::frame`].
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable). The engine then begins to listen after the next
    /// connection, if the feed is still open.
    fn listen<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>>;

    /// Called when the last subscription of this node to a stream has ended.
    fn released(&self, stream: &Stream);

    /// Reads at most `max` stored frames after an offset, and at most [`MAX_READ`](super::MAX_READ)
    /// bytes; only the first frame may be longer. A stream without a stored position gets one. The
    /// call extends the life of the position.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn entries<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Entries>>;

    /// Replaces an epoch whose data was lost, notifies all nodes, and returns the new position. If
    /// the stream already has another epoch, it only returns the position.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn replace_epoch<'a>(
        &'a self,
        stream: &'a Stream,
        lost: Epoch,
    ) -> BoxFuture<'a, Result<Position>>;
}

/// Reads within the declared history: the answer of [`Engine::read`](super::Engine::read).
///
/// # Errors
/// As [`Source::entries`].
pub async fn read_history(
    source: &dyn Source,
    clock: &Clock,
    stream: &Stream,
    after: u64,
    max: usize,
) -> Result<Slice> {
    let Entries {
        top, mut frames, ..
    } = source.entries(stream, after, max).await?;
    let oldest = top.offset.saturating_sub(u64::from(stream.history.size)) + 1;
    let ttl = i64::try_from(stream.history.ttl.as_millis()).unwrap_or(i64::MAX);
    let since = Timestamp::from_millis(clock().millis().saturating_sub(ttl));
    frames.retain(|frame| frame.position.offset >= oldest && frame.at > since);
    // The clocks of nodes differ a little, so a frame in the middle may look too old. Only the
    // frames after the last gap are returned.
    let is_gap = |pair: &[Frame]| pair[0].position.offset + 1 != pair[1].position.offset;
    if let Some(at) = frames.windows(2).rposition(is_gap) {
        frames.drain(..=at);
    }
    let gap = match frames.first() {
        Some(first) => first.position.offset != after + 1,
        None => after < top.offset && max > 0,
    };
    Ok(Slice { top, frames, gap })
}

/// The place up to which a subscription has received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the last frame.
    pub position: Position,
    /// The [fingerprint](EventId::fingerprint) of its event, if the subscription has seen it.
    pub event: Option<u64>,
}

impl Place {
    fn of(frame: &Frame) -> Self {
        Self {
            position: frame.position,
            event: Some(frame.event.fingerprint()),
        }
    }

    /// Returns the place with the higher offset; `newer` if the epochs differ.
    fn max(self, newer: Self) -> Self {
        let (own, new) = (self.position, newer.position);
        if own.epoch == new.epoch && own.offset >= new.offset {
            self
        } else {
            newer
        }
    }

    /// Whether `event` differs from the event that the subscription has seen at this place.
    pub fn contradicts(&self, event: Option<&EventId>) -> bool {
        match (self.event, event) {
            (Some(seen), Some(event)) => seen != event.fingerprint(),
            _ => false,
        }
    }
}

/// The entry of a subscription in the registry.
struct Feed {
    stream: Stream,
    inbox: Inbox,
}

impl Feed {
    fn is_at(&self, top: Position, last: Option<&EventId>) -> bool {
        let same = |place: Place| place.position == top && !place.contradicts(last);
        self.inbox.newest_frame().is_some_and(same)
    }
}

/// The open subscriptions of a node.
#[derive(Default)]
pub struct Feeds {
    streams: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_name: HashMap<Arc<str>, Vec<Arc<Feed>>>,
    closed: bool,
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds")
            .field("streams", &self.streams.lock().by_name.len())
            .finish()
    }
}

impl Feeds {
    /// Subscribes: opens a feed, listens, and reads the top. Frames that arrive meanwhile wait in
    /// the feed.
    ///
    /// # Errors
    /// As [`Source::listen`] and [`Source::entries`]; for a stream without history never
    /// [`Unavailable`](EngineError::Unavailable), unless the engine is closed.
    pub async fn subscribe(
        self: &Arc<Self>,
        source: Arc<dyn Source>,
        stream: &Stream,
    ) -> Result<Subscription> {
        let feed = Arc::new(Feed {
            stream: stream.clone(),
            inbox: Inbox::default(),
        });
        {
            let mut open = self.streams.lock();
            if open.closed {
                return Err(EngineError::unavailable("the engine is closed"));
            }
            open.by_name
                .entry(stream.shared_name())
                .or_default()
                .push(Arc::clone(&feed));
        }
        // From here on, dropping the subscription removes the feed.
        let mut subscription = Subscription::new(Arc::clone(self), Arc::clone(&source), feed);
        let top = async {
            source.listen(stream).await?;
            source.entries(stream, u64::MAX, 0).await
        };
        match top.await {
            Ok(entries) => subscription.begin(entries.top, entries.last.as_ref()),
            Err(error) if error.is_unavailable() && !stream.history.is_recoverable() => {
                subscription.begin_without_top();
            }
            Err(error) => return Err(error),
        }
        Ok(subscription)
    }

    fn each(&self, stream: &str, act: impl Fn(&Feed)) {
        if let Some(feeds) = self.streams.lock().by_name.get(stream) {
            for feed in feeds {
                act(feed);
            }
        }
    }

    fn all(&self, act: impl Fn(&Feed)) {
        for feed in self.streams.lock().by_name.values().flatten() {
            act(feed);
        }
    }

    /// Passes on a frame that was appended to a stream.
    pub fn frame(&self, stream: &str, frame: &Frame) {
        self.each(stream, |feed| {
            feed.inbox.push(Item::Frame(frame.clone()));
        });
    }

    /// Passes on an ephemeral message.
    pub fn message(&self, stream: &str, message: &Bytes) {
        self.each(stream, |feed| {
            feed.inbox.push(Item::Message(message.clone()));
        });
    }

    /// Makes the subscriptions of a stream compare their places with its newest position, and read
    /// the missing frames. A frame may be missing, or the epoch may have been replaced.
    pub fn request_comparison(&self, stream: &str) {
        self.each(stream, |feed| feed.inbox.request_comparison());
    }

    /// Makes all subscriptions compare their places with the newest positions of their streams. An
    /// engine calls it after a new connection.
    pub fn request_all_comparisons(&self) {
        self.all(|feed| feed.inbox.request_comparison());
    }

    /// Compares the subscriptions of a stream with its top and the event there. If they differ,
    /// the subscriptions read the missing frames.
    pub fn compare(&self, stream: &str, top: Position, last: Option<&EventId>) {
        self.each(stream, |feed| {
            if !feed.is_at(top, last) {
                feed.inbox.request_comparison();
            }
        });
    }

    /// Whether all subscriptions of a stream have received all frames up to its top and this event.
    /// If so, no comparison is needed.
    pub fn agree(&self, stream: &str, top: Position, last: Option<&EventId>) -> bool {
        let open = self.streams.lock();
        let mut feeds = open.by_name.get(stream).into_iter().flatten();
        feeds.all(|feed| feed.is_at(top, last))
    }

    /// Returns the lowest place up to which the subscriptions of a stream have received frames.
    /// Returns `None` if a subscription has no place yet, or if they are in different epochs.
    pub fn place(&self, stream: &str) -> Option<Place> {
        let open = self.streams.lock();
        let places = open.by_name.get(stream)?.iter();
        places
            .map(|feed| feed.inbox.newest_frame())
            .reduce(lower)
            .flatten()
    }

    /// Whether a stream has an open subscription.
    pub fn is_open(&self, stream: &str) -> bool {
        self.streams.lock().by_name.contains_key(stream)
    }

    /// Returns the streams with open subscriptions.
    pub fn open(&self) -> Vec<Stream> {
        let open = self.streams.lock();
        let first = |feeds: &Vec<Arc<Feed>>| feeds.first().map(|feed| feed.stream.clone());
        open.by_name.values().filter_map(first).collect()
    }

    /// Ends all subscriptions and refuses new ones.
    pub fn close(&self) {
        self.streams.lock().closed = true;
        self.all(|feed| feed.inbox.close());
    }

    /// Removes a feed. Returns whether it was the last of its stream.
    fn remove(&self, feed: &Arc<Feed>) -> bool {
        let mut open = self.streams.lock();
        let name = feed.stream.name();
        let Some(feeds) = open.by_name.get_mut(name) else {
            return false;
        };
        feeds.retain(|other| !Arc::ptr_eq(other, feed));
        let last = feeds.is_empty();
        if last {
            open.by_name.remove(name);
        }
        last
    }
}

/// Returns the lower of two places, or `None` if they are in different epochs.
fn lower(one: Option<Place>, other: Option<Place>) -> Option<Place> {
    let (one, other) = (one?, other?);
    if one.position.epoch != other.position.epoch {
        None
    } else if one.position.offset <= other.position.offset {
        Some(one)
    } else {
        Some(other)
    }
}
