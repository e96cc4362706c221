//! The body of a response with server-sent events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use linchpin::Timestamp;
use tokio::time::{Instant, Sleep, sleep_until};

use super::block;
use crate::connection::{Authentication, Connection, Due, Hub};
use crate::protocol::{Close, ServerFrame};

/// The settings of a stream.
#[derive(Clone)]
pub struct StreamSettings {
    /// The hub. The stream calls its method `ended` at its end.
    pub hub: Arc<dyn Hub>,
    /// The clock of the app. It decides whether a token has expired.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The time between heartbeats; `None` turns them off.
    pub heartbeat: Option<Duration>,
}

/// Streams the events of a connection as the body of a response. A block is one event, or a
/// comment, in the text format of server-sent events.
///
/// When the server ends the connection, the last block is the event `linchpin:close`. When the
/// server stops, it is a `retry` line. When the queue is full, the stream ends without a further
/// block. The browser then connects again and resumes.
///
/// Dropping the stream ends the connection.
pub struct EventStream {
    connection: Arc<Connection>,
    /// The first blocks: the position, and the events that the client has missed. They have
    /// separate limits, and do not count towards the queue limit of a slow client.
    first: VecDeque<ServerFrame>,
    settings: StreamSettings,
    auth: Authentication,
    /// The time at which the last block was taken.
    sent: Instant,
    timer: Pin<Box<Sleep>>,
    ended: bool,
}

impl EventStream {
    /// Creates the stream of a connection. [`begin`](Self::begin) sets its first blocks.
    pub fn new(connection: Arc<Connection>, settings: StreamSettings) -> Self {
        let now = Instant::now();
        let limits = connection.limits();
        Self {
            auth: Authentication::new(connection.identity(), true, limits, now),
            connection,
            first: VecDeque::new(),
            settings,
            sent: now,
            timer: Box::pin(sleep_until(now)),
            ended: false,
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sets the blocks that are sent before those in the queue of the connection.
    pub fn begin(&mut self, first: impl IntoIterator<Item = ServerFrame>) {
        self.first = first.into_iter().collect();
    }

    /// Returns the next block: first the missed events of the client, then those in the queue.
    fn next_block(&mut self) -> Option<ServerFrame> {
        if let Some(block) = self.first.pop_front() {
            self.connection.meter().sent(1);
            return Some(block);
        }
        self.connection.pop()
    }

    fn end(&mut self, why: Close) -> Option<Bytes> {
        self.ended = true;
        self.connection.finish(why);
        match why {
            Close::SlowConsumer | Close::Normal => None,
            Close::Restart => Some(block::draining().into_bytes()),
            why => Some(block::close(why).into_bytes()),
        }
    }
}

impl Stream for EventStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        this.connection.register(cx.waker());
        let limits = Arc::clone(this.connection.limits());
        loop {
            let now = Instant::now();
            let clock = (this.settings.clock)();
            // Frames that were queued before the end are sent first, unless the client is too slow.
            let why = this.connection.closing();
            if why != Some(Close::SlowConsumer)
                && let Some(block) = this.next_block()
            {
                this.sent = now;
                return Poll::Ready(Some(block.into_bytes()));
            }
            let closes_at = this.connection.closes_at();
            let due = match why {
                Some(why) => Some(why),
                None if closes_at.is_some_and(|at| now >= at) => Some(Close::Restart),
                None => match this.auth.due(&limits, now, clock) {
                    Some(Due::Close(why)) => Some(why),
                    Some(Due::Expiring(_)) | None => None,
                },
            };
            if let Some(why) = due {
                return Poll::Ready(this.end(why));
            }
            let beat = this.settings.heartbeat.map(|every| this.sent + every);
            if beat.is_some_and(|at| now >= at) {
                this.sent = now;
                let position = this.connection.take_skipped();
                return Poll::Ready(Some(block::heartbeat(position.as_ref()).into_bytes()));
            }
            let next = [beat, closes_at, this.auth.next(&limits, now, clock)];
            let Some(next) = next.into_iter().flatten().min() else {
                return Poll::Pending;
            };
            if this.timer.is_elapsed() || this.timer.deadline() > next {
                this.timer.as_mut().reset(next);
            }
            if this.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.connection.finish(Close::Normal);
        self.settings.hub.ended(&self.connection);
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream")
            .field("connection", &self.connection.id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
