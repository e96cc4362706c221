//! The comparison of a subscription with its stream.
//!
//! It runs in a separate task. A caller often waits for a subscription and for other events at
//! once, and each other event cancels the call of the subscription. If each call restarted the
//! comparison, a comparison that takes longer than the time between two events would never end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use super::seen::{Known, Seen};
use super::subscription::{Delivery, ResetReason};
use super::{Entries, Source};
use crate::engine::{EngineError, Epoch, EventId, Frame, Position, Stream};

/// How many frames are read at once to fill a gap.
const READ: usize = 256;
/// The maximum number of frames in an epoch that is delivered from its start after a reset. An
/// epoch with at most this number of frames counts as one that began when the former one was lost.
const MAX_NEW_EPOCH: u64 = 64;

/// A running comparison. Dropping it cancels the comparison.
pub(super) struct Running(JoinHandle<Result<CatchUp, EngineError>>);

impl Running {
    pub(super) fn start(begin: CatchUp) -> Self {
        Self(tokio::spawn(begin.run()))
    }
}

impl Future for Running {
    type Output = Result<CatchUp, EngineError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(cx);
        ended.map(|ended| ended.unwrap_or_else(|panic| Err(EngineError::failed(panic))))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The input of one step of a comparison. After the step it holds the result.
pub(super) struct CatchUp {
    source: Arc<dyn Source>,
    stream: Stream,
    /// The place of the subscription.
    pub(super) seen: Seen,
    without_top: bool,
    reused: bool,
    /// The deliveries of the subscription.
    pub(super) deliveries: Vec<Delivery>,
    /// The epoch before the reset, if a reset changed it.
    pub(super) former_epoch: Option<Epoch>,
    /// Whether there was a reset.
    pub(super) was_reset: bool,
    /// Whether the place is the top.
    pub(super) done: bool,
}

impl CatchUp {
    /// Creates a step that starts at the place in `seen`. `without_top` means that the place is a
    /// placeholder, not a real position. `reused` means that an offset was used for two events.
    pub(super) fn new(
        source: Arc<dyn Source>,
        stream: Stream,
        seen: Seen,
        without_top: bool,
        reused: bool,
    ) -> Self {
        Self {
            source,
            stream,
            seen,
            without_top,
            reused,
            deliveries: Vec::new(),
            former_epoch: None,
            was_reset: false,
            done: false,
        }
    }

    async fn run(mut self) -> Result<Self, EngineError> {
        self.done = self.step().await?;
        Ok(self)
    }

    /// Reads the missing frames. Returns whether the place is the top now.
    async fn step(&mut self) -> Result<bool, EngineError> {
        let own = self.seen.position;
        // Read the frame at the current place, too: it must be the one that was seen.
        let from = own.offset.saturating_sub(1);
        let Entries {
            top,
            last,
            mut frames,
        } = self.source.entries(&self.stream, from, READ).await?;
        if top.epoch != own.epoch {
            return self.restart(top, last).await;
        }
        let reused = self.reused
            || frames
                .first()
                .filter(|frame| frame.position.offset == own.offset)
                .is_some_and(|frame| self.seen.compare(own.offset, &frame.event) == Known::Other)
            || (top.offset == own.offset
                && last
                    .as_ref()
                    .is_some_and(|last| self.seen.compare(own.offset, last) == Known::Other));
        if top.offset < own.offset || reused {
            let top = self.source.replace_epoch(&self.stream, own.epoch).await?;
            return self.restart(top, None).await;
        }
        let ends_here = |frame: &Frame| frame.position.offset == own.offset;
        if top.offset > own.offset && frames.last().is_some_and(ends_here) {
            // The frame at the current place filled the answer alone: read the next ones.
            let next = self.source.entries(&self.stream, own.offset, READ).await?;
            if next.top.epoch != own.epoch {
                return Ok(false);
            }
            frames = next.frames;
        }
        for frame in frames {
            if frame.position.offset == self.seen.position.offset + 1 {
                self.seen.advance(&frame.event);
                self.deliveries.push(Delivery::Frame(frame));
            } else if frame.position.offset > self.seen.position.offset {
                break;
            }
        }
        let read = self.seen.position.offset - own.offset;
        if read == 0 && top.offset > own.offset {
            self.reset(top, last.as_ref(), ResetReason::HistoryUnavailable);
            return Ok(true);
        }
        Ok(self.seen.position.offset == top.offset)
    }

    /// Continues in another epoch. Returns whether the place is the top now.
    async fn restart(&mut self, top: Position, last: Option<EventId>) -> Result<bool, EngineError> {
        if self.without_top || top.offset == 0 || top.offset > MAX_NEW_EPOCH {
            self.reset(top, last.as_ref(), ResetReason::EpochChanged);
            return Ok(true);
        }
        let entries = self.source.entries(&self.stream, 0, READ).await?;
        let has_first_frame = entries.top.epoch == top.epoch
            && entries
                .frames
                .first()
                .is_some_and(|first| first.position.offset == 1);
        let start = if has_first_frame {
            Position { offset: 0, ..top }
        } else {
            entries.top
        };
        self.reset(
            start,
            entries.last.as_ref().filter(|_| !has_first_frame),
            ResetReason::EpochChanged,
        );
        // The frames of the young epoch are read by the next step.
        Ok(!has_first_frame)
    }

    fn reset(&mut self, position: Position, last: Option<&EventId>, reason: ResetReason) {
        let former = self.seen.position.epoch;
        self.seen = Seen::new(position, last);
        self.was_reset = true;
        self.deliveries.push(Delivery::Reset { position, reason });
        self.former_epoch = (former != position.epoch).then_some(former);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use linchpin::{BoxFuture, Timestamp};

    use super::*;
    use crate::engine::feed::Feeds;
    use crate::engine::{History, Result};

    /// A source that needs 50 milliseconds for an answer.
    #[derive(Debug)]
    struct Slow {
        epoch: Epoch,
        top: AtomicU64,
        /// The number of answers that panic.
        panics: AtomicU64,
    }

    impl Slow {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                epoch: Epoch::random(),
                top: AtomicU64::new(0),
                panics: AtomicU64::new(0),
            })
        }
    }

    impl Source for Slow {
        fn listen<'a>(&'a self, _: &'a Stream) -> BoxFuture<'a, Result<()>> {
            Box::pin(async { Ok(()) })
        }

        fn released(&self, _: &Stream) {}

        fn entries<'a>(
            &'a self,
            _: &'a Stream,
            after: u64,
            _: usize,
        ) -> BoxFuture<'a, Result<Entries>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let less = |left: u64| left.checked_sub(1);
                let panics = self
                    .panics
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
                assert!(panics.is_err(), "a panic that the test requests");
                let at = |offset| Position {
                    epoch: self.epoch,
                    offset,
                };
                let event = |offset: u64| EventId::new(&offset.to_string());
                let top = self.top.load(Ordering::SeqCst);
                let frames = (after.saturating_add(1)..=top).filter_map(|offset| {
                    Some(Frame {
                        position: at(offset),
                        event: event(offset)?,
                        data: Bytes::new(),
                        at: Timestamp::from_millis(0),
                    })
                });
                Ok(Entries {
                    top: at(top),
                    last: event(top).filter(|_| top > 0),
                    frames: if after < top {
                        frames.collect()
                    } else {
                        vec![]
                    },
                })
            })
        }

        fn replace_epoch<'a>(&'a self, _: &'a Stream, _: Epoch) -> BoxFuture<'a, Result<Position>> {
            Box::pin(async { Err(EngineError::failed("the epoch is not lost")) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_comparison_completes_even_if_each_wait_for_it_is_canceled() {
        let source = Slow::new();
        let feeds = Arc::new(Feeds::default());
        let stream = Stream::new("tasks:1:live", History::default());
        let shared = Arc::clone(&source) as Arc<dyn Source>;
        let mut live = feeds.subscribe(shared, &stream).await.unwrap();
        source.top.store(2, Ordering::SeqCst);
        feeds.request_comparison(stream.name());
        let mut offsets = Vec::new();
        for _ in 0..200 {
            let wait = tokio::time::timeout(Duration::from_millis(1), live.next()).await;
            match wait {
                Ok(Some(Delivery::Frame(frame))) => offsets.push(frame.position.offset),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
        }
        assert_eq!(offsets, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_comparison_that_panics_is_repeated() {
        let source = Slow::new();
        let feeds = Arc::new(Feeds::default());
        let stream = Stream::new("tasks:1:live", History::default());
        let shared = Arc::clone(&source) as Arc<dyn Source>;
        let mut live = feeds.subscribe(shared, &stream).await.unwrap();
        source.top.store(1, Ordering::SeqCst);
        source.panics.store(3, Ordering::SeqCst);
        feeds.request_comparison(stream.name());
        match live.next().await {
            Some(Delivery::Frame(frame)) => assert_eq!(frame.position.offset, 1),
            other => panic!("{other:?}"),
        }
    }
}
