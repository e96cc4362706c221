//! A connection as the rest of the node sees it.

mod socket;

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::output::Output;
use super::queue::{Class, Pushed, Queue};
use super::{Identity, Limits, Meter};
use crate::protocol::{Close, Connected, Position, ServerFrame};

pub(crate) use self::socket::flush_all;

/// A connected client: a WebSocket, or a response with server-sent events. Every holder can queue
/// frames and request the close. The socket task, or the response body, writes the frames and
/// closes.
pub struct Connection {
    id: Arc<str>,
    kind: Kind,
    limits: Arc<Limits>,
    meter: Arc<Meter>,
    state: Mutex<State>,
    /// Notified when frames leave the queue.
    space_freed: Notify,
}

/// The form of the frames of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// WebSocket: JSON frames.
    Socket,
    /// Server-sent events: blocks of lines.
    Events,
}

struct State {
    queue: Queue,
    /// The socket. Stored here, so that a broadcast writes to the socket without waking the
    /// connection's task.
    output: Output,
    /// Wakes the task.
    task: Option<Waker>,
    /// Whether a caller waits for free space in the queue.
    waits_for_space: bool,
    identity: Option<Identity>,
    /// The number of the identity check that began last.
    latest_check: u64,
    /// The number of the check that returned the current identity.
    applied_check: u64,
    /// An identity that will replace the current one. It comes from outside of the socket.
    refreshed: Option<Identity>,
    close: Option<Closing>,
    /// SSE only: the position after events that were skipped because the client may not see them.
    /// It is sent once the queue is empty.
    skipped: Option<Position>,
    /// The time at which the connection closes because the server stops.
    closes_at: Option<Instant>,
    /// Whether the close has been added to the metrics.
    counted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Closing {
    why: Close,
    /// Whether the task has taken the reason.
    seen: bool,
}

impl Connection {
    /// Creates a WebSocket connection. Its first frame is already in its queue.
    ///
    /// `identity` is the caller if the handshake had a credential. `pending` means that the client
    /// has to send one.
    pub fn socket(
        id: impl Into<Arc<str>>,
        identity: Option<Identity>,
        pending: bool,
        limits: Arc<Limits>,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        let id = id.into();
        let connected = ServerFrame::connected(Connected {
            id: &id,
            user_id: identity.as_ref().and_then(|who| who.actor.id.as_deref()),
            pending,
            heartbeat_ms: u64::try_from(limits.heartbeat.as_millis()).unwrap_or(u64::MAX),
            max_frame_bytes: limits.inbound_bytes,
        });
        let connection = Self::new(id, Kind::Socket, identity, limits, meter);
        connection.send(connected);
        connection
    }

    /// Creates the connection of a response with server-sent events.
    pub fn events(
        id: impl Into<Arc<str>>,
        identity: Option<Identity>,
        limits: Arc<Limits>,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        Self::new(id.into(), Kind::Events, identity, limits, meter)
    }

    fn new(
        id: Arc<str>,
        kind: Kind,
        identity: Option<Identity>,
        limits: Arc<Limits>,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        let connection = Arc::new(Self {
            id,
            kind,
            limits,
            meter,
            state: Mutex::new(State {
                queue: Queue::default(),
                output: Output::new(Instant::now()),
                task: None,
                waits_for_space: false,
                identity,
                latest_check: 0,
                applied_check: 0,
                refreshed: None,
                skipped: None,
                close: None,
                closes_at: None,
                counted: false,
            }),
            space_freed: Notify::new(),
        });
        connection.meter.opened();
        connection
    }

    /// The id that the client has received.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the form of its frames.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the caller that the connection acts for now.
    pub fn identity(&self) -> Option<Identity> {
        self.state.lock().identity.clone()
    }

    /// Returns the limits of the connection.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Puts a frame into the queue. It never waits. If a durable frame does not fit, the connection
    /// ends as a slow consumer.
    pub fn push(&self, frame: ServerFrame, class: Class) -> Pushed {
        let (pushed, wakes) = self.enqueue(frame, class);
        if wakes {
            self.wake();
        }
        pushed
    }

    /// Puts a frame into the queue without waking the task. Returns whether the caller must pass
    /// the connection to [`flush_all`]. If not, another task is already writing its frames, or the
    /// connection is closing.
    pub(crate) fn enqueue(&self, frame: ServerFrame, class: Class) -> (Pushed, bool) {
        let bytes = frame.len();
        let mut state = self.state.lock();
        if state.close.is_some() {
            return (Pushed::Closed, false);
        }
        let was_empty = state.queue.is_empty() && state.output.is_empty();
        let limits = &self.limits;
        let pushed = state
            .queue
            .push(frame, class, limits.queue_frames, limits.queue_bytes);
        let pushed = match pushed {
            Ok(change) => {
                state.skipped = None;
                if change.dropped > 0 {
                    self.meter.dropped(change.dropped);
                    self.meter.unqueued(change.freed);
                }
                if change.queued {
                    self.meter.queued(bytes);
                    Pushed::Queued
                } else {
                    Pushed::Dropped
                }
            }
            Err(_) => {
                if self.kind == Kind::Events {
                    // Queued frames will not be sent, so free them now; the client may stay
                    // connected for long.
                    self.meter.unqueued(state.queue.clear());
                }
                state.close = Some(Closing {
                    why: Close::SlowConsumer,
                    seen: false,
                });
                Pushed::Closed
            }
        };
        drop(state);
        if pushed == Pushed::Closed {
            self.space_freed.notify_waiters();
        }
        // A task that has frames to write is waiting for its socket, not for more frames.
        (pushed, was_empty || pushed == Pushed::Closed)
    }

    /// Puts a durable frame into the queue.
    pub fn send(&self, frame: ServerFrame) -> Pushed {
        self.push(frame, Class::Durable)
    }

    /// Puts a durable frame into the queue once half of the queue is free, so that a long replay
    /// does not overflow the queue. If the client stops reading, the task closes the connection.
    pub async fn send_when_free(&self, frame: ServerFrame) -> Pushed {
        loop {
            let popped = self.space_freed.notified();
            {
                let mut state = self.state.lock();
                let limits = &self.limits;
                let free = state
                    .queue
                    .is_half_free(limits.queue_frames, limits.queue_bytes);
                if free || state.close.is_some() {
                    break;
                }
                state.waits_for_space = true;
            }
            popped.await;
        }
        self.send(frame)
    }

    /// Records that the client may not see the events between the last frame of the queue and
    /// `position`. The next heartbeat of a response sends the position; a socket ignores it.
    pub fn skip_to(&self, position: Position) {
        if self.kind == Kind::Events {
            self.state.lock().skipped = Some(position);
        }
    }

    /// Takes the position after the skipped events. Returns `None` while frames are in the queue.
    pub(crate) fn take_skipped(&self) -> Option<Position> {
        let mut state = self.state.lock();
        if state.queue.is_empty() {
            state.skipped.take()
        } else {
            None
        }
    }

    /// Requests the close of the connection. Later calls have no effect.
    pub fn close(&self, why: Close) {
        let mut state = self.state.lock();
        if state.close.is_some() {
            return;
        }
        state.close = Some(Closing { why, seen: false });
        drop(state);
        self.space_freed.notify_waiters();
        self.wake();
    }

    /// Whether the connection is closing or closed.
    pub fn is_closing(&self) -> bool {
        self.state.lock().close.is_some()
    }

    /// Sends the client a notice that the server stops, and closes the connection after
    /// `reconnect_in`.
    pub fn drain(&self, reconnect_in: std::time::Duration) {
        if self.kind == Kind::Socket {
            let millis = u64::try_from(reconnect_in.as_millis()).unwrap_or(u64::MAX);
            self.send(ServerFrame::draining(millis));
        }
        self.state
            .lock()
            .closes_at
            .get_or_insert(Instant::now() + reconnect_in);
        self.wake();
    }

    /// Replaces the identity with a newer one, after a token was refreshed outside of the socket.
    /// Returns `false`, and changes nothing, if the callers differ.
    pub fn refresh(&self, identity: Identity) -> bool {
        let mut state = self.state.lock();
        let same = state
            .identity
            .as_ref()
            .is_some_and(|own| own.is_of_same_caller(&identity));
        if same {
            state.refreshed = Some(identity);
            drop(state);
            self.wake();
        }
        same
    }

    /// Begins a check of the identity. Returns the identity and the number of the check.
    pub fn check_identity(&self) -> Option<(Identity, u64)> {
        let mut state = self.state.lock();
        let identity = state.identity.clone()?;
        state.latest_check += 1;
        Some((identity, state.latest_check))
    }

    /// Replaces the identity by the result of a check, such as after a change of roles. The result
    /// is ignored if a check that began later has already returned, or if the client has
    /// authenticated again since the check began.
    pub fn update_identity(&self, check: u64, identity: Identity) {
        let mut state = self.state.lock();
        if check > state.applied_check {
            state.applied_check = check;
            state.identity = Some(identity);
        }
    }

    /// Wakes the task, so that it checks its deadlines again.
    pub fn wake(&self) {
        // Release the lock before waking: the task locks it first.
        let task = self.state.lock().task.clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    pub(crate) fn register(&self, task: &Waker) {
        let mut state = self.state.lock();
        if state.task.as_ref().is_none_or(|own| !own.will_wake(task)) {
            state.task = Some(task.clone());
        }
    }

    pub(crate) fn bind(&self, identity: Identity) {
        let mut state = self.state.lock();
        state.latest_check += 1;
        state.applied_check = state.latest_check;
        state.identity = Some(identity);
    }

    pub(crate) fn take_refreshed(&self) -> Option<Identity> {
        self.state.lock().refreshed.take()
    }

    pub(crate) fn pop(&self) -> Option<ServerFrame> {
        let frame = self.state.lock().queue.pop()?;
        self.meter.unqueued(frame.len());
        self.meter.sent(1);
        self.space_freed.notify_waiters();
        Some(frame)
    }

    pub(crate) fn closes_at(&self) -> Option<Instant> {
        self.state.lock().closes_at
    }

    /// Returns the close reason once; later calls return `None`.
    pub(crate) fn take_close(&self) -> Option<Close> {
        let mut state = self.state.lock();
        let closing = state.close.as_mut()?;
        let first = !std::mem::replace(&mut closing.seen, true);
        first.then_some(closing.why)
    }

    /// Returns the close reason, if the close has been requested.
    pub(crate) fn closing(&self) -> Option<Close> {
        self.state.lock().close.map(|closing| closing.why)
    }

    /// Drops queued frames, marks the connection as closed, and counts the close once, unless the
    /// client has left.
    pub(crate) fn finish(&self, why: Close) {
        self.clear();
        let mut state = self.state.lock();
        state.close.get_or_insert(Closing { why, seen: true });
        let first = !std::mem::replace(&mut state.counted, true);
        if first && why != Close::Normal {
            self.meter.closed(why);
        }
    }

    /// Records that the client has left: nothing more can be sent.
    pub(crate) fn left(&self) {
        self.finish(Close::Normal);
    }

    /// Removes all queued frames.
    pub(crate) fn clear(&self) {
        let bytes = self.state.lock().queue.clear();
        self.meter.unqueued(bytes);
        self.space_freed.notify_waiters();
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.clear();
        self.meter.ended();
    }
}
