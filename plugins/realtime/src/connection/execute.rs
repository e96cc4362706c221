//! Executes the frames of a client, one at a time.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use linchpin::{BoxFuture, Code, Error, Result};
use tokio::time::Instant;

use super::auth::{Authentication, Verdict};
use super::{Connection, Hub, Identity, Joined, Limits};
use crate::protocol::{
    AckId, AuthError, ClientFrame, Close, INVALID_ROOM, Refused, ResetReason, ServerFrame,
    TOO_MANY_ROOMS,
};

/// The frames that wait, and the one that is executed.
pub(super) struct Execution {
    hub: Arc<dyn Hub>,
    connection: Arc<Connection>,
    waiting: VecDeque<(Waiting, usize)>,
    /// The lengths of the waiting frames.
    bytes: usize,
    running: Option<Running>,
}

/// A frame that waits for its turn.
pub(super) enum Waiting {
    /// To be executed.
    Frame(ClientFrame),
    /// To be answered: it cannot be read.
    Refused(Box<Refused>),
    /// To be answered: there were too many.
    Limited(ClientFrame),
    /// A token that was refreshed outside of the socket.
    Refreshed(Box<Identity>),
}

struct Running {
    work: BoxFuture<'static, Done>,
    until: Instant,
    asker: Asker,
}

/// The end of an execution, if the state of the connection depends on it.
enum Done {
    Nothing,
    Joined,
    Verified(Result<Option<Identity>>),
}

/// What the answer to a frame repeats of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Asker {
    ack_id: Option<AckId>,
    /// The room of a subscription.
    room: Option<String>,
    source: Option<String>,
    reference: Option<String>,
    is_auth: bool,
}

impl Asker {
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

    /// The answer to a frame that failed.
    pub(super) fn failed(&self, error: &Error) -> ServerFrame {
        let reference = self.reference.as_deref();
        match (&self.ack_id, &self.room) {
            (Some(ack), _) => ServerFrame::ack_error(ack, error, reference),
            (None, Some(room)) => {
                ServerFrame::subscribe_denied(room, denial(error.code()), reference)
            }
            (None, None) => ServerFrame::error(error, self.source.as_deref(), reference),
        }
    }

    /// The answer to a frame on a connection that has to authenticate first.
    fn unauthenticated(&self) -> ServerFrame {
        let reference = self.reference.as_deref();
        match &self.ack_id {
            Some(ack) => ServerFrame::ack_error(ack, &Error::unauthorized(), reference),
            None => ServerFrame::unauthenticated(self.source.as_deref(), reference),
        }
    }
}

/// The code of a refused subscription: one that clients know.
fn denial(code: Code) -> Code {
    match code {
        Code::NotFound | Code::Unauthorized | Code::Forbidden | Code::RateLimited => code,
        INVALID_ROOM | TOO_MANY_ROOMS => code,
        _ => Code::Unavailable,
    }
}

/// The most frames that wait before the server stops to read.
const MOST_WAITING: usize = 64;
/// The most bytes that wait, in messages of the greatest length.
const MOST_MESSAGES: usize = 4;

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
    pub(super) fn has_room(&self, limits: &Limits) -> bool {
        self.waiting.len() < MOST_WAITING && self.bytes < MOST_MESSAGES * limits.inbound_bytes
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// When the frame that is executed takes too long.
    pub(super) fn until(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.until)
    }

    pub(super) fn add(&mut self, waiting: Waiting, bytes: usize) {
        self.bytes += bytes;
        self.waiting.push_back((waiting, bytes));
    }

    /// Adds what comes before all frames that wait.
    pub(super) fn add_first(&mut self, waiting: Waiting) {
        self.waiting.push_front((waiting, 0));
    }

    /// Cancels the frame that is executed, and forgets those that wait.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.waiting = VecDeque::new();
    }

    /// Drops waiting frames except events: the client no longer receives answers.
    pub(super) fn keep_events(&mut self) {
        self.waiting
            .retain(|(waiting, _)| matches!(waiting, Waiting::Frame(ClientFrame::Event(_))));
    }

    /// Continues the frame that is executed and starts the next ones. Returns whether anything
    /// happened, or why the connection ends.
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
                let asker = match polled {
                    Poll::Pending if !late => return Ok(progress),
                    _ => std::mem::take(&mut running.asker),
                };
                // Dropping the work cancels it.
                self.running = None;
                progress = true;
                match polled {
                    Poll::Ready(done) => self.finish(done, &asker, auth, now)?,
                    Poll::Pending => self.late(&asker),
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
                self.connection.send(Asker::of(&frame).failed(&error));
                return;
            }
            Waiting::Refreshed(identity) => {
                let asker = Asker::default();
                let done = Done::Verified(Ok(Some(*identity)));
                // A newer identity of the same caller is never refused.
                let _ = self.finish(done, &asker, auth, now);
                return;
            }
            Waiting::Frame(frame) => frame,
        };
        let asker = Asker::of(&frame);
        if auth.is_pending() && !asker.is_auth {
            self.connection.send(asker.unauthenticated());
            return;
        }
        let (hub, connection) = (Arc::clone(&self.hub), Arc::clone(&self.connection));
        let work = execute(hub, connection, frame, asker.clone());
        self.run(work, asker, now);
    }

    fn run(
        &mut self,
        work: impl Future<Output = Done> + Send + 'static,
        asker: Asker,
        now: Instant,
    ) {
        let (connection, about) = (Arc::clone(&self.connection), asker.clone());
        let work = async move {
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(done) => done,
                Err(panic) => {
                    tracing::error!(
                        panic = text_of(&*panic),
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
            asker,
        });
    }

    fn finish(
        &mut self,
        done: Done,
        asker: &Asker,
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
        let reference = asker.reference.as_deref();
        match auth.take(result) {
            Verdict::Bound { refreshed } => {
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
                self.run(work, Asker::default(), now);
                Ok(())
            }
            Verdict::Error(error) => {
                self.connection
                    .send(ServerFrame::auth_error(error, reference));
                Ok(())
            }
            Verdict::Failed(error, close) => {
                self.connection
                    .send(ServerFrame::auth_error(error, reference));
                Err(close)
            }
        }
    }

    /// Answers a frame that cannot be read.
    pub(super) fn refuse(&self, refused: Refused) {
        let asker = Asker {
            ack_id: refused.ack_id,
            source: refused.source_event,
            reference: refused.reference,
            ..Asker::default()
        };
        self.connection.send(asker.failed(&refused.error));
    }

    /// Answers a frame whose execution took too long.
    fn late(&self, asker: &Asker) {
        let frame = if asker.is_auth {
            ServerFrame::auth_error(AuthError::Unavailable, asker.reference.as_deref())
        } else {
            asker.failed(&Error::new(Code::Timeout, "The frame took too long"))
        };
        self.connection.send(frame);
    }
}

/// Executes one frame.
async fn execute(
    hub: Arc<dyn Hub>,
    connection: Arc<Connection>,
    frame: ClientFrame,
    asker: Asker,
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
                Err(error) => connection.send(asker.failed(&error)),
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
                    connection.send(asker.failed(&error));
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
                        let code = denial(error.code());
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
                Err(error) => connection.send(asker.failed(&error)),
            };
        }
        ClientFrame::Auth { token, .. } => {
            // An empty token needs no look at the sessions.
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

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
