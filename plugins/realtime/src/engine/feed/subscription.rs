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

/// The delay before a failed read is retried. It doubles up to [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(5);

/// The reason of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The stream has another epoch: the engine has lost its data.
    EpochChanged,
    /// Frames that were missed are no longer kept.
    HistoryUnavailable,
}

impl ResetReason {
    /// Returns the reason in the form that clients receive.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EpochChanged => "epoch_changed",
            Self::HistoryUnavailable => "history_unavailable",
        }
    }
}

/// One delivery of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The next frame of the stream.
    Frame(Frame),
    /// An ephemeral message. Its order relative to the frames is undefined.
    Message(Bytes),
    /// The stream continues after this position. Earlier frames are lost, so a client has to read
    /// the state again.
    Reset {
        /// The next frame has the offset after this one.
        position: Position,
        /// The reason.
        reason: ResetReason,
    },
}

/// The frames of a stream from the time of the subscription. Dropping the value ends the
/// subscription.
pub struct Subscription {
    feeds: Arc<Feeds>,
    source: Arc<dyn Source>,
    feed: Arc<Feed>,
    /// The place up to which the subscription has read its stream.
    seen: Seen,
    /// The position of the last delivered frame or reset.
    delivered: Position,
    /// Whether the subscription began while the engine was down.
    without_top: bool,
    /// Whether an offset was used for two events.
    reused: bool,
    /// Deliveries that are ready to be returned.
    ready: VecDeque<Delivery>,
    /// Whether a comparison with the top is due.
    must_compare: bool,
    /// The running comparison.
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
        // `begin` replaces this placeholder before the subscription is returned. After
        // `begin_without_top` the first comparison replaces it.
        let placeholder = Position {
            epoch: Epoch::random(),
            offset: 0,
        };
        Self {
            feeds,
            source,
            feed,
            seen: Seen::new(placeholder, None),
            delivered: placeholder,
            without_top: false,
            reused: false,
            ready: VecDeque::new(),
            must_compare: false,
            running: None,
            retry: None,
        }
    }

    /// Begins at the top.
    pub(super) fn begin(&mut self, top: Position, last: Option<&EventId>) {
        self.seen = Seen::new(top, last);
        self.delivered = top;
        self.feed.inbox.drop_read_frames(self.seen.place(), None);
    }

    /// Begins at a placeholder position, which the first comparison replaces.
    pub(super) fn begin_without_top(&mut self) {
        self.without_top = true;
        self.must_compare = true;
    }

    /// Returns the position of the last delivered frame or reset. Before the first delivery it is
    /// the top at the time of the subscription.
    pub fn position(&self) -> Position {
        self.delivered
    }

    /// Waits for the next delivery, even while the engine is down. Returns `None` after the engine
    /// was closed. A canceled call loses no delivery, and a running comparison continues.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.deliver() {
                return Some(delivery);
            }
            let may_compare = self
                .retry
                .as_ref()
                .is_none_or(|retry| retry.at <= Instant::now());
            if self.must_compare && may_compare {
                self.compare().await;
                continue;
            }
            match self.feed.inbox.take() {
                Next::End => return None,
                // The engine has requested the comparison: do it now, even if a retry is due later.
                Next::Compare => {
                    self.must_compare = true;
                    self.retry = None;
                }
                Next::Item(Item::Message(message)) => return Some(Delivery::Message(message)),
                Next::Item(Item::Frame(frame)) => self.receive(frame),
                Next::Wait => match &self.retry {
                    Some(retry) if self.must_compare => {
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

    /// Returns the next delivery if it has already been received. It never reads the stream.
    pub(crate) fn next_received(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.deliver() {
                return Some(delivery);
            }
            if self.must_compare {
                return None;
            }
            match self.feed.inbox.take() {
                Next::Item(Item::Message(message)) => return Some(Delivery::Message(message)),
                Next::Item(Item::Frame(frame)) => self.receive(frame),
                Next::Compare => {
                    self.must_compare = true;
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
            self.must_compare = true;
        } else if frame.position.offset == own.offset + 1 {
            // While a comparison is due, it reads this frame too.
            if !self.must_compare {
                self.seen.advance(&frame.event);
                self.ready.push_back(Delivery::Frame(frame));
            }
        } else {
            let known = self.seen.compare(frame.position.offset, &frame.event);
            self.reused |= known == Known::Other;
            self.must_compare |= known != Known::Same;
        }
    }

    /// Compares the current place with the stream, and reads the missing frames. If it fails, the
    /// comparison stays due. If it is canceled, the next call waits for the same comparison. The
    /// place does not change before the comparison ends.
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
                self.feed
                    .inbox
                    .drop_read_frames(self.seen.place(), result.former_epoch);
                self.must_compare = !result.done;
                self.retry = None;
            }
            Err(error) => {
                let delay = self
                    .retry
                    .as_ref()
                    .map_or(FIRST_RETRY, |retry| retry.delay * 2);
                let delay = delay.min(MAX_RETRY);
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
