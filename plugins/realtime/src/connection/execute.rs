//! Executes the frames of a client, one at a time.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use linchpin::{BoxFuture, Code, Error, Result};
use tokio::time::Instant;

use super::auth::{Authentication, TokenOutcome};
use super::{Connection, Hub, Identity, Joined, Limits};
use crate::protocol::{
    AckId, AuthError, ClientFrame, Close, INVALID_ROOM, Refused, ResetReason, ServerFrame,
    TOO_MANY_ROOMS,
};

/// The waiting frames and the frame that is being executed.
pub(super) struct Execution {
    hub: Arc<dyn Hub>,
    connection: Arc<Connection>,
    waiting: VecDeque<(Waiting, usize)>,
    /// The total length of the waiting frames, in bytes.
    bytes: usize,
    running: Option<Running>,
}

/// A frame that waits for its turn.
pub(super) enum Waiting {
    /// A frame to execute.
    Frame(ClientFrame),
    /// A frame that cannot be read. The answer is an error.
    Refused(Box<Refused>),
    /// A frame above the rate limit. The answer is an error.
    Limited(ClientFrame),
    /// The identity of a token that the client refreshed outside of the socket.
    Refreshed(Box<Identity>),
}

struct Running {
    work: BoxFuture<'static, Done>,
    until: Instant,
    context: ReplyContext,
}

/// The part of the result of an execution that changes the state of the connection.
enum Done {
    Nothing,
    Joined,
    Verified(Result<Option<Identity>>),
}

/// The parts of a frame that its answer repeats.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplyContext {
    ack_id: Option<AckId>,
    /// The room of a subscription.
    room: Option<String>,
    source: Option<String>,
    reference: Option<String>,
    is_auth: bool,
}

impl ReplyContext {
    pub(super) fn of(frame: &ClientFrame) -> Self {
        let named = |source: &str, reference: &Option<String>| Self {
            source: Some(source.to_owned()),
            reference: reference.clone(),
            ..Self::default()
        };
        match frame {
            ClientFrame::Subscribe {
                room, reference, ..
            } => Self {
                room: Some(room.clone()),
                ..named("subscribe", reference)
            },
            ClientFrame::Unsubscribe { reference, .. } => named("unsubscribe", reference),
            ClientFrame::Recover { reference, .. } => named("recover", reference),
            ClientFrame::Presence { reference, .. } => named("presence", reference),
            ClientFrame::Ping { reference } => named("ping", reference),
            ClientFrame::Auth { reference, .. } => Self {
                is_auth: true,
                ..named("auth", reference)
            },
            ClientFrame::Event(call) => Self {
                ack_id: call.ack_id.clone(),
                ..named(&call.event, &call.reference)
            },
        }
    }

    /// Returns the answer to a frame that failed.
    pub(super) fn failed(&self, error: &Error) -> ServerFrame {
        let reference = self.reference.as_deref();
        match (&self.ack_id, &self.room) {
            (Some(ack), _) => ServerFrame::ack_error(ack, error, reference),
            (None, Some(room)) => {
                ServerFrame::subscribe_denied(room, denial_code(error.code()), reference)
            }
            (None, None) => ServerFrame::error(error, self.source.as_deref(), reference),
        }
    }

    /// Returns the answer to a frame on a connection that has to authenticate first.
    fn unauthenticated(&self) -> ServerFrame {
        let reference = self.reference.as_deref();
        match &self.ack_id {
            Some(ack) => ServerFrame::ack_error(ack, &Error::unauthorized(), reference),
            None => ServerFrame::unauthenticated(self.source.as_deref(), reference),
        }
    }
}

/// Maps an error code to one that the protocol defines for a refused subscription.
fn denial_code(code: Code) -> Code {
    match code {
        Code::NotFound | Code::Unauthorized | Code::Forbidden | Code::RateLimited => code,
        INVALID_ROOM | TOO_MANY_ROOMS => code,
        _ => Code::Unavailable,
    }
}

/// The maximum number of waiting frames. With more, the server stops reading.
const MAX_WAITING: usize = 64;
/// The maximum number of waiting bytes, as a multiple of the longest message.
const MAX_MESSAGES: usize = 4;

impl Execution {
    pub(super) fn new(hub: Arc<dyn Hub>, connection: Arc<Connection>) -> Self {
        Self {
            hub,
            connection,
            waiting: VecDeque::new(),
            bytes: 0,
            running: None,
        }
    }

    /// Whether another frame may be read.
    pub(super) fn accepts_more(&self, limits: &Limits) -> bool {
        self.waiting.len() < MAX_WAITING && self.bytes < MAX_MESSAGES * limits.inbound_bytes
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// Returns the deadline of the frame that is being executed.
    pub(super) fn until(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until)
    }

    pub(super) fn add(&mut self, waiting: Waiting, bytes: usize) {
        self.bytes += bytes;
        self.waiting.push_back((waiting, bytes));
    }

    /// Adds an entry before all waiting frames.
    pub(super) fn add_first(&mut self, waiting: Waiting) {
        self.waiting.push_front((waiting, 0));
    }

    /// Cancels the frame that is being executed and drops the waiting ones.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.waiting = VecDeque::new();
    }

    /// Drops waiting frames except events: the client no longer receives answers.
    pub(super) fn keep_events(&mut self) {
        self.waiting
            .retain(|(waiting, _)| matches!(waiting, Waiting::Frame(ClientFrame::Event(_))));
    }

    /// Polls the frame that is being executed and starts the next ones. Returns whether there was
    /// progress, or the reason why the connection ends.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        auth: &mut Authentication,
        now: Instant,
    ) -> Result<bool, Close> {
        let mut progress = false;
        loop {
            if let Some(running) = &mut self.running {
                let polled = running.work.as_mut().poll(cx);
                let late = now >= running.until;
                let context = match polled {
                    Poll::Pending if !late => return Ok(progress),
                    _ => std::mem::take(&mut running.context),
                };
                // Dropping the work cancels it.
                self.running = None;
                progress = true;
                match polled {
                    Poll::Ready(done) => self.finish(done, &context, auth, now)?,
                    Poll::Pending => self.answer_timeout(&context),
                }
                continue;
            }
            let Some((next, bytes)) = self.waiting.pop_front() else {
                if self.waiting.capacity() > 0 {
                    self.waiting = VecDeque::new();
                }
                return Ok(progress);
            };
            self.bytes -= bytes;
            progress = true;
            self.start(next, auth, now);
        }
    }

    fn start(&mut self, next: Waiting, auth: &mut Authentication, now: Instant) {
        let frame = match next {
            Waiting::Refused(refused) => return self.refuse(*refused),
            Waiting::Limited(frame) => {
                let error = Error::new(Code::RateLimited, "Too many frames").retry_after(1);
                self.connection
                    .send(ReplyContext::of(&frame).failed(&error));
                return;
            }
            Waiting::Refreshed(identity) => {
                let context = ReplyContext::default();
                let done = Done::Verified(Ok(Some(*identity)));
                // A newer identity of the same caller is always accepted.
                let _ = self.finish(done, &context, auth, now);
                return;
            }
            Waiting::Frame(frame) => frame,
        };
        let context = ReplyContext::of(&frame);
        if auth.is_pending() && !context.is_auth {
            self.connection.send(context.unauthenticated());
            return;
        }
        let (hub, connection) = (Arc::clone(&self.hub), Arc::clone(&self.connection));
        let work = execute(hub, connection, frame, context.clone());
        self.run(work, context, now);
    }

    fn run(
        &mut self,
        work: impl Future<Output = Done> + Send + 'static,
        context: ReplyContext,
        now: Instant,
    ) {
        let (connection, about) = (Arc::clone(&self.connection), context.clone());
        let work = async move {
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(done) => done,
                Err(panic) => {
                    tracing::error!(
                        panic = panic_message(&*panic),
                        "the execution of a frame panicked"
                    );
                    let error = Error::new(Code::Internal, "Internal error");
                    connection.send(about.failed(&error));
                    Done::Nothing
                }
            }
        };
        self.running = Some(Running {
            work: Box::pin(work),
            until: now + self.connection.limits().handler_time,
            context,
        });
    }

    fn finish(
        &mut self,
        done: Done,
        context: &ReplyContext,
        auth: &mut Authentication,
        now: Instant,
    ) -> Result<(), Close> {
        let result = match done {
            Done::Nothing => return Ok(()),
            Done::Joined => {
                auth.joined();
                return Ok(());
            }
            Done::Verified(result) => result,
        };
        let reference = context.reference.as_deref();
        match auth.take(result) {
            TokenOutcome::Bound { refreshed } => {
                let Some(identity) = auth.identity() else {
                    return Ok(());
                };
                self.connection.bind(identity.clone());
                self.connection.send(ServerFrame::authenticated(
                    identity.actor.id.as_deref(),
                    identity.expires_at,
                    refreshed,
                    reference,
                ));
                let (hub, connection) = (Arc::clone(&self.hub), Arc::clone(&self.connection));
                let work = async move {
                    hub.bound(&connection).await;
                    Done::Nothing
                };
                self.run(work, ReplyContext::default(), now);
                Ok(())
            }
            TokenOutcome::Error(error) => {
                self.connection
                    .send(ServerFrame::auth_error(error, reference));
                Ok(())
            }
            TokenOutcome::Failed(error, close) => {
                self.connection
                    .send(ServerFrame::auth_error(error, reference));
                Err(close)
            }
        }
    }

    /// Answers a frame that cannot be read.
    pub(super) fn refuse(&self, refused: Refused) {
        let context = ReplyContext {
            ack_id: refused.ack_id,
            source: refused.source_event,
            reference: refused.reference,
            ..ReplyContext::default()
        };
        self.connection.send(context.failed(&refused.error));
    }

    /// Answers a frame whose execution took too long.
    fn answer_timeout(&self, context: &ReplyContext) {
        let frame = if context.is_auth {
            ServerFrame::auth_error(AuthError::Unavailable, context.reference.as_deref())
        } else {
            context.failed(&Error::new(Code::Timeout, "The frame took too long"))
        };
        self.connection.send(frame);
    }
}

/// Executes one frame.
async fn execute(
    hub: Arc<dyn Hub>,
    connection: Arc<Connection>,
    frame: ClientFrame,
    context: ReplyContext,
) -> Done {
    match frame {
        ClientFrame::Subscribe {
            room,
            since,
            reference,
        } => {
            let joined = hub
                .subscribe(&connection, &room, since.as_ref(), reference.as_deref())
                .await;
            match joined {
                Ok(_) => return Done::Joined,
                Err(error) => connection.send(context.failed(&error)),
            };
        }
        ClientFrame::Unsubscribe { room, reference } => {
            hub.unsubscribe(&connection, &room).await;
            connection.send(ServerFrame::unsubscribed(&room, None, reference.as_deref()));
        }
        ClientFrame::Event(call) => {
            let done = hub.event(&connection, &call).await;
            match (done, &call.ack_id) {
                (Err(error), _) => {
                    connection.send(context.failed(&error));
                }
                (Ok(outcome), Some(ack)) => {
                    connection.send(ServerFrame::ack(
                        ack,
                        &outcome.result,
                        outcome.replayed,
                        call.reference.as_deref(),
                    ));
                }
                (Ok(_), None) => {}
            }
        }
        ClientFrame::Recover { rooms, reference } => {
            let (mut replayed, mut recovered, mut any) = (0, Vec::new(), false);
            for one in rooms {
                let joined = hub
                    .subscribe(&connection, &one.room, Some(&one.since), None)
                    .await;
                any |= joined.is_ok();
                let reason = match joined {
                    Ok(Joined::Recovered(frames)) => {
                        replayed += frames;
                        recovered.push(one.room);
                        continue;
                    }
                    Ok(Joined::Fresh) => continue,
                    Ok(Joined::Reset(reason)) => reason,
                    Err(error) => {
                        let code = denial_code(error.code());
                        connection.send(ServerFrame::subscribe_denied(&one.room, code, None));
                        ResetReason::Denied
                    }
                };
                connection.send(ServerFrame::recover_failed(&one.room, reason));
            }
            connection.send(ServerFrame::recovered(
                replayed,
                &recovered,
                reference.as_deref(),
            ));
            if any {
                return Done::Joined;
            }
        }
        ClientFrame::Presence { room, reference } => {
            match hub.presence(&connection, &room, reference.as_deref()).await {
                Ok(frame) => connection.send(frame),
                Err(error) => connection.send(context.failed(&error)),
            };
        }
        ClientFrame::Auth { token, .. } => {
            // An empty token is bad without a check.
            let found = match token.expose() {
                "" => Ok(None),
                token => hub.verify(token).await,
            };
            return Done::Verified(found);
        }
        ClientFrame::Ping { reference } => {
            connection.send(ServerFrame::pong(reference.as_deref()));
        }
    }
    Done::Nothing
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(panic payload is not a string)")
}
