//! One subscription: frames in order and without gaps, or a reset.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::catch_up::{CatchUp, Running};
use super::inbox::{Item, Next};
use super::seen::{Known, Seen};
use super::{Feed, Feeds, Source};
use crate::engine::{Epoch, EventId, Frame, Position};

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
    /// The comparison that runs.
    running: Option<Running>,
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
            running: None,
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
    /// it waits. A canceled call loses nothing, and a comparison with the stream continues.
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

    /// Compares the own place with the stream, and reads what is missing. If it fails, the
    /// comparison stays due. If it is canceled, the next call waits for the same comparison: until
    /// it has ended, the place does not change.
    async fn compare(&mut self) {
        let begin = || {
            Running::start(CatchUp::new(
                Arc::clone(&self.source),
                self.feed.stream.clone(),
                self.seen.clone(),
                self.without_top,
                self.reused,
            ))
        };
        let compared = self.running.get_or_insert_with(begin).await;
        self.running = None;
        match compared {
            Ok(result) => {
                if result.was_reset {
                    (self.reused, self.without_top) = (false, false);
                }
                self.seen = result.seen;
                self.ready.extend(result.deliveries);
                self.feed.inbox.settle(self.seen.place(), result.left);
                self.doubt = !result.done;
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
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.feeds.remove(&self.feed) {
            self.source.released(&self.feed.stream);
        }
    }
}
