//! One subscription: frames in order and without gaps, or a reset.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::inbox::{Item, Next};
use super::seen::{Known, Seen};
use super::{Entries, Feed, Feeds, Source};
use crate::engine::{EngineError, Epoch, EventId, Frame, Position};

/// How many frames are read at once to fill a gap.
const READ: usize = 256;
/// An epoch that is not longer than this is delivered from its start after a reset: it began when
/// the former one was lost.
const YOUNG: u64 = 64;
/// The delay before a failed read is tried again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The reason of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The stream has another epoch: the engine has lost its data.
    EpochChanged,
    /// Frames that were missed are no longer kept.
    HistoryUnavailable,
}

impl ResetReason {
    /// The reason as it is sent to clients.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EpochChanged => "epoch_changed",
            Self::HistoryUnavailable => "history_unavailable",
        }
    }
}

/// What a subscription delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The next frame of the stream.
    Frame(Frame),
    /// An ephemeral message, in no order with the frames.
    Message(Bytes),
    /// The stream continues after this position. Earlier frames are lost: read the state again.
    Reset {
        /// The next frame has the offset after this one.
        position: Position,
        /// The reason.
        reason: ResetReason,
    },
}

/// The frames of a stream from the moment of the subscription. Dropping it ends it.
pub struct Subscription {
    feeds: Arc<Feeds>,
    source: Arc<dyn Source>,
    feed: Arc<Feed>,
    seen: Seen,
    delivered: Position,
    /// The subscription began while the engine was down.
    without_top: bool,
    /// An offset was used for two events.
    reused: bool,
    /// Read from the source and not delivered yet.
    ready: VecDeque<Delivery>,
    /// Whether a comparison with the top is due.
    doubt: bool,
    retry: Option<Retry>,
}

struct Retry {
    at: Instant,
    delay: Duration,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("stream", &self.feed.stream.name())
            .field("position", &self.seen.position)
            .finish_non_exhaustive()
    }
}

impl Subscription {
    pub(super) fn new(feeds: Arc<Feeds>, source: Arc<dyn Source>, feed: Arc<Feed>) -> Self {
        // Replaced by `begin` before anybody sees it.
        let nowhere = Position {
            epoch: Epoch::random(),
            offset: 0,
        };
        Self {
            feeds,
            source,
            feed,
            seen: Seen::new(nowhere, None),
            delivered: nowhere,
            without_top: false,
            reused: false,
            ready: VecDeque::new(),
            doubt: false,
            retry: None,
        }
    }

    /// Begins at the top.
    pub(super) fn begin(&mut self, top: Position, last: Option<&EventId>) {
        self.seen = Seen::new(top, last);
        self.delivered = top;
        self.feed.inbox.settle(self.seen.place(), None);
    }

    /// Begins at an invented position, which the first comparison replaces.
    pub(super) fn begin_without_top(&mut self) {
        self.without_top = true;
        self.doubt = true;
    }

    /// The position after everything that was delivered: at first the top at the time of the
    /// subscription, later the last frame or reset.
    pub fn position(&self) -> Position {
        self.delivered
    }

    /// Waits for the next delivery; `None` after the engine was closed. While the engine is down
    /// it waits. A canceled call loses nothing.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.deliver() {
                return Some(delivery);
            }
            let may_compare = self
                .retry
                .as_ref()
                .is_none_or(|retry| retry.at <= Instant::now());
            if self.doubt && may_compare {
                self.compare().await;
                continue;
            }
            match self.feed.inbox.take() {
                Next::End => return None,
                // The engine has asked for it: compare at once, even if a retry is due later.
                Next::Compare => {
                    self.doubt = true;
                    self.retry = None;
                }
                Next::Item(Item::Message(message)) => return Some(Delivery::Message(message)),
                Next::Item(Item::Frame(frame)) => self.receive(frame),
                Next::Wait => match &self.retry {
                    Some(retry) if self.doubt => {
                        let at = retry.at;
                        tokio::select! {
                            () = self.feed.inbox.changed() => {}
                            () = tokio::time::sleep_until(at) => {}
                        }
                    }
                    _ => self.feed.inbox.changed().await,
                },
            }
        }
    }

    /// The next delivery, if it is here already. It never reads the stream.
    pub(crate) fn next_here(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.deliver() {
                return Some(delivery);
            }
            if self.doubt {
                return None;
            }
            match self.feed.inbox.take() {
                Next::Item(Item::Message(message)) => return Some(Delivery::Message(message)),
                Next::Item(Item::Frame(frame)) => self.receive(frame),
                Next::Compare => {
                    self.doubt = true;
                    self.retry = None;
                }
                Next::End | Next::Wait => return None,
            }
        }
    }

    fn deliver(&mut self) -> Option<Delivery> {
        let delivery = self.ready.pop_front()?;
        match &delivery {
            Delivery::Frame(frame) => self.delivered = frame.position,
            Delivery::Reset { position, .. } => self.delivered = *position,
            Delivery::Message(_) => {}
        }
        Some(delivery)
    }

    /// Delivers a received frame, drops it, or schedules a comparison.
    fn receive(&mut self, frame: Frame) {
        let own = self.seen.position;
        if frame.position.epoch != own.epoch || frame.position.offset > own.offset + 1 {
            self.doubt = true;
        } else if frame.position.offset == own.offset + 1 {
            // While a comparison is due, it reads this frame too.
            if !self.doubt {
                self.seen.advance(&frame.event);
                self.ready.push_back(Delivery::Frame(frame));
            }
        } else {
            let known = self.seen.known(frame.position.offset, &frame.event);
            self.reused |= known == Known::Other;
            self.doubt |= known != Known::Same;
        }
    }

    /// Compares the own place with the stream, and reads what is missing. If it fails, or is
    /// canceled, the comparison stays due.
    async fn compare(&mut self) {
        match self.catch_up().await {
            Ok(done) => {
                self.doubt = !done;
                self.retry = None;
            }
            Err(error) => {
                let delay = self.retry.as_ref().map_or(RETRY.0, |retry| retry.delay * 2);
                let delay = delay.min(RETRY.1);
                if !error.is_unavailable() {
                    tracing::error!(error = %error, "a stream of the realtime engine cannot be read");
                }
                self.retry = Some(Retry {
                    at: Instant::now() + delay,
                    delay,
                });
            }
        }
    }

    /// One step; returns whether the place is the top.
    async fn catch_up(&mut self) -> Result<bool, EngineError> {
        let own = self.seen.position;
        let stream = &self.feed.stream;
        // Read the frame at the own place, too: it must be the one that was seen.
        let from = own.offset.saturating_sub(1);
        let Entries {
            top,
            last,
            mut frames,
        } = self.source.entries(stream, from, READ).await?;
        if top.epoch != own.epoch {
            return self.restart(top, last).await;
        }
        let reused = self.reused
            || frames
                .first()
                .filter(|frame| frame.position.offset == own.offset)
                .is_some_and(|frame| self.seen.known(own.offset, &frame.event) == Known::Other)
            || (top.offset == own.offset
                && last
                    .as_ref()
                    .is_some_and(|last| self.seen.known(own.offset, last) == Known::Other));
        if top.offset < own.offset || reused {
            let top = self.source.replace_epoch(stream, own.epoch).await?;
            return self.restart(top, None).await;
        }
        let ends_here = |frame: &Frame| frame.position.offset == own.offset;
        if top.offset > own.offset && frames.last().is_some_and(ends_here) {
            // The frame at the own place was too long for another one to fit: read the next ones.
            let next = self.source.entries(stream, own.offset, READ).await?;
            if next.top.epoch != own.epoch {
                return Ok(false);
            }
            frames = next.frames;
        }
        for frame in frames {
            if frame.position.offset == self.seen.position.offset + 1 {
                self.seen.advance(&frame.event);
                self.ready.push_back(Delivery::Frame(frame));
            } else if frame.position.offset > self.seen.position.offset {
                break;
            }
        }
        let read = self.seen.position.offset - own.offset;
        if read == 0 && top.offset > own.offset {
            self.reset(top, last.as_ref(), ResetReason::HistoryUnavailable);
            return Ok(true);
        }
        self.feed.inbox.settle(self.seen.place(), None);
        Ok(self.seen.position.offset == top.offset)
    }

    /// Continues in another epoch.
    async fn restart(&mut self, top: Position, last: Option<EventId>) -> Result<bool, EngineError> {
        if self.without_top || top.offset == 0 || top.offset > YOUNG {
            self.reset(top, last.as_ref(), ResetReason::EpochChanged);
            return Ok(true);
        }
        let entries = self.source.entries(&self.feed.stream, 0, READ).await?;
        let whole = entries.top.epoch == top.epoch
            && entries
                .frames
                .first()
                .is_some_and(|first| first.position.offset == 1);
        let start = if whole {
            Position { offset: 0, ..top }
        } else {
            entries.top
        };
        self.reset(
            start,
            entries.last.as_ref().filter(|_| !whole),
            ResetReason::EpochChanged,
        );
        // The frames of the young epoch are read by the next step.
        Ok(!whole)
    }

    fn reset(&mut self, position: Position, last: Option<&EventId>, reason: ResetReason) {
        let left = self.seen.position.epoch;
        self.seen = Seen::new(position, last);
        (self.reused, self.without_top) = (false, false);
        self.ready.push_back(Delivery::Reset { position, reason });
        let left = (left != position.epoch).then_some(left);
        self.feed.inbox.settle(self.seen.place(), left);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.feeds.remove(&self.feed) {
            self.source.released(&self.feed.stream);
        }
    }
}
