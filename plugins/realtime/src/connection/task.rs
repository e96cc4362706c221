//! The task of one socket.

mod close;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use linchpin::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message, WebSocket};

use super::auth::{Authentication, Due};
use super::execute::{Execution, Waiting};
use super::output::Progress;
use super::rate::{Faults, TokenBucket};
use super::wire::Wire;
use super::{Connection, Hub, Limits, OnExceeded};
use crate::protocol::{ClientFrame, Close, INVALID_FRAME, ServerFrame};

/// The objects and settings that the connections of an endpoint share.
#[derive(Clone)]
pub struct Settings {
    /// The rooms and sessions of the node.
    pub hub: Arc<dyn Hub>,
    /// The clock of the app. It decides when a token has expired.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Whether a connection without a credential acts anonymously instead of waiting for one.
    pub anonymous: bool,
}

/// The size of the buffer of an idle socket in bytes. A longer message gets a buffer of its own.
const READ_BUFFER: usize = 128;
/// Rounds of the task before it yields to other tasks.
const ROUNDS: usize = 32;
/// The maximum number of messages that one round reads before it writes frames.
const BATCH: usize = 64;
/// A ping without a payload.
const PING: Bytes = Bytes::from_static(&[0x89, 0]);
/// Discarded frames within [`DISCARD_SPAN`] that end the connection.
const MAX_DISCARDED: u32 = 100;
const DISCARD_SPAN: Duration = Duration::from_secs(10);
/// Unreadable frames within [`MALFORMED_SPAN`] that end the connection.
const MAX_MALFORMED: u32 = 10;
const MALFORMED_SPAN: Duration = Duration::from_mins(1);
/// The maximum number of received bytes for an unfinished message, as a multiple of the longest
/// message. A fragment with one byte takes seven received bytes. More than eight means that the
/// client sends an endless series of empty fragments.
const MAX_OVERHEAD: u64 = 8;

/// Runs the protocol on a socket after its handshake, until the connection ends. Returns the reason
/// if the server ended it, and `None` if the client did.
///
/// Dropping the future closes the socket. In every case [`Hub::ended`] is called once.
pub async fn serve<S>(io: S, connection: Arc<Connection>, settings: Settings) -> Option<Close>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ended = Ended(Arc::clone(&settings.hub), Arc::clone(&connection));
    let _attached = Attached::new(io, &connection);
    let mut task = Task::new(connection, settings);
    match poll_fn(|cx| task.poll(cx)).await {
        End::Gone => None,
        End::Close(why) => {
            task.connection.close(why);
            task.execution.stop();
            drop(ended);
            // The future is boxed, because only the end of a connection needs its memory.
            Box::pin(task.close(why)).await;
            Some(why)
        }
    }
}

/// Closes the socket of a connection at the end of its task.
struct Attached(Arc<Connection>);

impl Attached {
    fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, to: &Arc<Connection>) -> Self {
        to.attach(Box::new(io));
        Self(Arc::clone(to))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Notifies the hub, on drop, that a connection has ended.
struct Ended(Arc<dyn Hub>, Arc<Connection>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended(&self.1);
    }
}

/// The reason why the task ends.
#[derive(Clone, Copy)]
enum End {
    /// The client has left.
    Gone,
    /// The server closes the connection.
    Close(Close),
}

struct Task {
    ws: WebSocket<Wire>,
    connection: Arc<Connection>,
    limits: Arc<Limits>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    auth: Authentication,
    execution: Execution,
    bucket: TokenBucket,
    discarded: Faults,
    malformed: Faults,
    /// The time of the unanswered ping, and the number of bytes read before it.
    pinged: Option<(Instant, u64)>,
    /// The number of bytes read until the end of the last message.
    message_start: u64,
    /// Whether a frame violated the protocol. The bytes after it cannot be read.
    unreadable: bool,
    /// The time at which the client left. Events that it sent before are still executed.
    left: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Task {
    fn new(connection: Arc<Connection>, settings: Settings) -> Self {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER;
        // The library must pass each frame on without buffering it.
        config.write_buffer_size = 0;
        config.max_message_size = Some(connection.limits().inbound_bytes);
        config.max_frame_size = Some(connection.limits().inbound_bytes);
        let wire = Wire::new(Arc::clone(&connection));
        let ws = WebSocket::from_raw_socket(wire, Role::Server, Some(config));
        let now = Instant::now();
        let limits = Arc::clone(connection.limits());
        let auth = Authentication::new(connection.identity(), settings.anonymous, &limits, now);
        Self {
            ws,
            execution: Execution::new(settings.hub, Arc::clone(&connection)),
            connection,
            clock: settings.clock,
            auth,
            bucket: TokenBucket::new(limits.frames_burst, now),
            limits,
            discarded: Faults::default(),
            malformed: Faults::default(),
            pinged: None,
            message_start: 0,
            unreadable: false,
            left: None,
            timer: Box::pin(sleep_until(now)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.connection.register(cx.waker());
        for _ in 0..ROUNDS {
            match self.round(cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        // Other tasks run before the next rounds.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does everything that is possible now. Returns whether there was progress.
    fn round(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let now = Instant::now();
        if let Some(why) = self.connection.take_close() {
            return Err(End::Close(why));
        }
        if let Some(identity) = self.connection.take_refreshed() {
            self.execution
                .add_first(Waiting::Refreshed(Box::new(identity)));
        }
        let mut progress = self
            .execution
            .poll(cx, &mut self.auth, now)
            .map_err(End::Close)?;
        let is_close_due = self.connection.closes_at().is_some_and(|at| now >= at);
        if self.left.is_none() && !is_close_due {
            progress |= self.read(now)?;
        }
        progress |= self.write(now);
        if self.execution.is_idle() {
            // The answer to a close frame is sent first.
            if self.left.is_some() && self.connection.output().is_empty {
                return Err(End::Gone);
            }
            if is_close_due {
                return Err(End::Close(Close::Restart));
            }
        }
        progress |= self.check_deadlines(cx, now)?;
        Ok(progress)
    }

    /// Reads a few messages, as long as the execution accepts more frames.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        let mut progress = false;
        for _ in 0..BATCH {
            if !self.execution.accepts_more(&self.limits) {
                break;
            }
            match self.ws.read() {
                Ok(message) => {
                    progress = true;
                    self.message_start = self.ws.get_ref().taken;
                    self.take(message, now)?;
                }
                Err(error) if would_block(&error) => {
                    self.check_fragments()?;
                    break;
                }
                Err(SocketError::ConnectionClosed) => {
                    self.leave(now);
                    return Ok(true);
                }
                Err(error) => match reason(&error) {
                    Some(why) => {
                        self.unreadable = true;
                        return Err(End::Close(why));
                    }
                    None => {
                        self.lose_client(now);
                        return Ok(true);
                    }
                },
            }
        }
        Ok(progress)
    }

    /// Ends a connection that sends fragments without ever finishing a message.
    fn check_fragments(&self) -> Result<(), End> {
        let unfinished = self.ws.get_ref().taken - self.message_start;
        let most = (self.limits.inbound_bytes as u64).saturating_mul(MAX_OVERHEAD);
        if unfinished > most + READ_BUFFER as u64 {
            return Err(End::Close(Close::RateLimited));
        }
        Ok(())
    }

    /// Handles a client that has left without a close frame, or that no longer reads.
    fn lose_client(&mut self, now: Instant) {
        self.connection.forget_output();
        self.leave(now);
    }

    fn leave(&mut self, now: Instant) {
        self.left.get_or_insert(now);
        self.connection.left();
        self.execution.keep_events();
    }

    fn take(&mut self, message: Message, now: Instant) -> Result<(), End> {
        self.connection.meter().received();
        let text = match message {
            Message::Text(text) => Some(text),
            // The library has queued the pong.
            Message::Ping(_) => None,
            Message::Binary(_) => return Err(End::Close(Close::Binary)),
            // A pong that answers a ping does not count. Any other pong counts like every frame.
            Message::Pong(_) if self.pinged.is_some() => return Ok(()),
            Message::Pong(_) => None,
            // After the answer to a close frame the stream ends.
            Message::Close(_) | Message::Frame(_) => return Ok(()),
        };
        let limits = &self.limits;
        let within_limit = self.bucket.take(
            f64::from(limits.frames_per_second),
            limits.frames_burst,
            now,
        );
        if !within_limit {
            let most = match limits.on_exceeded {
                OnExceeded::Close => 1,
                OnExceeded::Discard => MAX_DISCARDED,
            };
            if self.discarded.add(most, DISCARD_SPAN, now) {
                return Err(End::Close(Close::RateLimited));
            }
        }
        let Some(text) = text else {
            return Ok(());
        };
        let waiting = match ClientFrame::parse(&text) {
            Ok(frame) if !within_limit => Waiting::Limited(frame),
            // A ping is answered before the waiting frames.
            Ok(ClientFrame::Ping { reference }) => {
                self.connection
                    .send(ServerFrame::pong(reference.as_deref()));
                return Ok(());
            }
            Ok(frame) => Waiting::Frame(frame),
            Err(refused) => {
                let code = refused.error.code();
                let counts = code == INVALID_FRAME || code == linchpin::Code::MalformedJson;
                if counts && self.malformed.add(MAX_MALFORMED, MALFORMED_SPAN, now) {
                    self.execution.refuse(*refused);
                    return Err(End::Close(Close::BadFrames));
                }
                Waiting::Refused(refused)
            }
        };
        self.execution.add(waiting, text.len());
        Ok(())
    }

    /// Writes as much waiting data as the socket accepts.
    fn write(&mut self, now: Instant) -> bool {
        let (progress, moved) = self.connection.write(now);
        if progress == Progress::Broken {
            let newly = self.left.is_none();
            self.lose_client(now);
            return newly;
        }
        moved
    }

    /// Handles all deadlines that have passed, and sets the timer for the next one.
    fn check_deadlines(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<bool, End> {
        let clock = (self.clock)();
        let limits = Arc::clone(&self.limits);
        let mut progress = false;
        if let Some(left) = self.left {
            if now >= left + limits.handler_time {
                return Err(End::Gone);
            }
            return Ok(self.set_timer(cx, left + limits.handler_time));
        }
        match self.auth.due(&limits, now, clock) {
            Some(Due::Close(why)) => return Err(End::Close(why)),
            Some(Due::Expiring(at)) => {
                self.connection.send(ServerFrame::auth_expiring(at));
                progress = true;
            }
            None => {}
        }
        let output = self.connection.output();
        if output.stalled.is_some_and(|at| now >= at + limits.stall) {
            return Err(End::Close(Close::SlowConsumer));
        }
        let read = self.ws.get_ref().received;
        // A client that sends bytes is alive. While the server does not read, it cannot detect new
        // bytes, so it treats the client as alive.
        let alive = |before: u64| before != read || !self.execution.accepts_more(&limits);
        if self.pinged.is_some_and(|(_, before)| alive(before)) {
            self.pinged = None;
        }
        if self
            .pinged
            .is_some_and(|(at, _)| now >= at + limits.heartbeat_timeout)
        {
            return Err(End::Close(Close::Heartbeat));
        }
        if output.is_empty && now >= output.sent + limits.heartbeat {
            self.connection.control(PING);
            self.pinged.get_or_insert((now, read));
            progress = true;
        }
        let next = [
            Some(output.sent + limits.heartbeat),
            self.pinged.map(|(at, _)| at + limits.heartbeat_timeout),
            output.stalled.map(|at| at + limits.stall),
            self.execution.until(),
            self.auth.next(&limits, now, clock),
            self.connection.closes_at(),
        ];
        let next = next
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
            .unwrap_or(now + limits.heartbeat);
        Ok(self.set_timer(cx, next) || progress)
    }

    /// Makes the timer wake the task at `at`. Returns whether this time has passed.
    fn set_timer(&mut self, cx: &mut Context<'_>, at: Instant) -> bool {
        // A timer that is too early wakes the task once more. This costs less than a new timer for
        // each frame.
        if self.timer.is_elapsed() || self.timer.deadline() > at {
            self.timer.as_mut().reset(at);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

fn would_block(error: &SocketError) -> bool {
    matches!(error, SocketError::Io(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Returns the close reason for an error of the socket; `None` if the client has left.
fn reason(error: &SocketError) -> Option<Close> {
    match error {
        SocketError::Capacity(_) => Some(Close::TooLarge),
        SocketError::Utf8(_) => Some(Close::InvalidUtf8),
        SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        SocketError::Protocol(_) | SocketError::AttackAttempt => Some(Close::Protocol),
        _ => None,
    }
}
