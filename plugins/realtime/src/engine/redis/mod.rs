//! The engine on Redis (7 or newer) and Valkey, single servers and clusters.
//!
//! One function on the server appends a frame, and publishes it on a sharded channel of its
//! stream. A node subscribes to the channels of the streams that it serves.

mod compare;
mod keys;
mod link;
mod listener;
mod mend;
mod renewal;
mod scripts;
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use linchpin::{BoxFuture, Timestamp};
use parking_lot::Mutex;
use redis::{ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::keys::Keys;
use self::link::{Address, Link};
use self::listener::Command;
use self::mend::OwnKeys;
use super::feed::{Feeds, Source, Subscription, read_history};
use super::node::ControlSender;
use super::{
    Append, Clock, Controls, Engine, EngineError, Facts, LEASE, Member, NodeId, Position, Present,
    Result, Slice, Stream, To, check_message,
};

/// The time limit of a command.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call waits for a new connection after the old one was lost.
const RECONNECT: Duration = Duration::from_millis(300);

/// The address of the server, and the names of keys.
#[derive(Clone)]
pub struct RedisEngineOptions {
    /// `redis://user:password@host:port/database`, with `rediss://` for an encrypted connection.
    /// For a cluster, give the addresses of some of its nodes.
    pub urls: Vec<String>,
    /// Whether the addresses are nodes of a cluster.
    pub cluster: bool,
    /// The prefix of all keys and channels. Apps that share a server need different prefixes.
    pub prefix: String,
    /// The interval at which the connection is checked and streams are compared with their tops.
    pub check: Duration,
}

impl RedisEngineOptions {
    /// One server; the prefix is `linchpin:`, and the check runs every 5 seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            cluster: false,
            prefix: "linchpin:".to_owned(),
            check: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for RedisEngineOptions {
    // The output omits the URLs, because they contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngineOptions")
            .field("cluster", &self.cluster)
            .field("prefix", &self.prefix)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// The engine on Redis and Valkey, for several nodes.
///
/// Positions and frames survive a restart of the app. Whether they survive a restart of the server
/// depends on its settings; the engine detects lost data and reports a reset.
pub struct RedisEngine(Arc<Inner>);

struct Inner {
    node: NodeId,
    clock: Clock,
    keys: Keys,
    address: Address,
    check: Duration,
    feeds: Arc<Feeds>,
    controls: ControlSender,
    state: watch::Sender<State>,
    commands: mpsc::UnboundedSender<Command>,
    /// The receiver of commands; `None` after the engine has started.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone)]
enum State {
    /// There is no connection.
    Disconnected,
    Connected(Link),
    Closed,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Converts an error of the driver. It is `Failed` only if a retry cannot succeed: a wrong
/// password, a missing permission, a key of another type, an unknown command or an unreadable
/// answer.
fn error(error: RedisError) -> EngineError {
    let is_permanent = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported
        | ErrorKind::UnexpectedReturnType
        | ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::NoPerm) => true,
        ErrorKind::Extension => {
            matches!(
                error.code(),
                Some("WRONGPASS" | "NOAUTH" | "WRONGTYPE" | "DAMAGED")
            )
        }
        _ => false,
    };
    if is_permanent {
        EngineError::failed(error)
    } else {
        EngineError::unavailable(error)
    }
}

impl RedisEngine {
    /// Creates an engine that connects when it is started. It needs a tokio runtime.
    ///
    /// # Errors
    /// [`Failed`](EngineError::Failed) if a URL is not valid; the message contains no password.
    pub fn new(options: &RedisEngineOptions, clock: Clock) -> Result<Self> {
        let (commands, waiting) = mpsc::unbounded_channel();
        Ok(Self(Arc::new(Inner {
            node: NodeId::random(),
            clock,
            keys: Keys::new(&options.prefix),
            address: Address::new(options)?,
            check: options.check,
            feeds: Arc::default(),
            controls: ControlSender::default(),
            state: watch::Sender::new(State::Disconnected),
            commands,
            waiting: Mutex::new(Some(waiting)),
            tasks: Mutex::default(),
        })))
    }
}

impl Inner {
    /// Returns the connection. Waits a short time for a new one.
    async fn link(&self) -> Result<Link> {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| !matches!(state, State::Disconnected));
        match tokio::time::timeout(RECONNECT, known).await {
            Ok(Ok(state)) => match &*state {
                State::Connected(link) => Ok(link.clone()),
                State::Disconnected | State::Closed => {
                    Err(EngineError::unavailable("the engine is closed"))
                }
            },
            Ok(Err(_)) => Err(EngineError::unavailable("the engine is closed")),
            Err(_) => Err(EngineError::unavailable(
                "there is no connection to the Redis server",
            )),
        }
    }

    /// Runs a function on the server within its time limit. If another program has overwritten keys
    /// of the engine, it removes them and runs the function once more.
    async fn invoke<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &OwnKeys,
        fill: impl Fn(&mut redis::ScriptInvocation<'_>),
    ) -> Result<T> {
        let mut link = self.link().await?;
        let mut invocation = script.prepare_invoke();
        invocation.key(keys.names());
        fill(&mut invocation);
        let outcome = with_timeout(async { Ok(link.invoke(&invocation).await) }).await?;
        match outcome {
            Err(cause) if mend::is_damage(&cause) => {
                mend::remove_foreign(&mut link, keys, &cause).await?;
                with_timeout(link.invoke(&invocation)).await
            }
            outcome => outcome.map_err(error),
        }
    }

    async fn run<T: FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        let mut link = self.link().await?;
        with_timeout(link.run(command)).await
    }

    async fn publish(&self, channel: String, kind: u8, message: Bytes) -> Result<()> {
        check_message(&message)?;
        let mut text = Vec::with_capacity(message.len() + 1);
        text.push(kind);
        text.extend_from_slice(&message);
        let mut command = redis::cmd("SPUBLISH");
        command.arg(channel).arg(text);
        self.run::<i64>(&command).await.map(drop)
    }

    async fn start(self: &Arc<Self>) -> Result<()> {
        // Try to connect once before the listener starts, to report a wrong address or password.
        let mut link = with_timeout(self.address.connect(None)).await?;
        link.check_version().await?;
        if let Some(commands) = self.waiting.lock().take() {
            let inner = Arc::clone(self);
            self.tasks
                .lock()
                .spawn(async move { listener::run(&inner, commands).await });
        }
        let mut state = self.state.subscribe();
        let connected = state.wait_for(|state| matches!(state, State::Connected(_)));
        match tokio::time::timeout(REQUEST_TIMEOUT, connected).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(EngineError::unavailable(
                "the engine cannot subscribe to the server",
            )),
        }
    }

    async fn close(&self) {
        self.state.send_replace(State::Closed);
        self.feeds.close();
        self.controls.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

/// Waits for an answer of the server, at most [`REQUEST_TIMEOUT`].
async fn with_timeout<T>(work: impl Future<Output = redis::RedisResult<T>>) -> Result<T> {
    match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
        Ok(outcome) => outcome.map_err(error),
        Err(_) => Err(EngineError::unavailable("the server does not answer")),
    }
}

impl Engine for RedisEngine {
    fn facts(&self) -> Facts {
        Facts {
            name: "redis",
            persistent: true,
            cluster: true,
        }
    }

    fn node(&self) -> &NodeId {
        &self.0.node
    }

    fn start(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.start())
    }

    fn append<'a>(&'a self, batch: &'a [Append]) -> BoxFuture<'a, Result<Vec<Position>>> {
        Box::pin(streams::append(&self.0, batch))
    }

    fn read<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Slice>> {
        Box::pin(read_history(&*self.0, &self.0.clock, stream, after, max))
    }

    fn top<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Position>> {
        Box::pin(async { Ok(self.0.entries(stream, u64::MAX, 0).await?.top) })
    }

    fn subscribe<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Subscription>> {
        let source = Arc::clone(&self.0) as Arc<dyn Source>;
        Box::pin(self.0.feeds.subscribe(source, stream))
    }

    fn renew(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(renewal::renew(&self.0))
    }

    fn send<'a>(&'a self, stream: &'a Stream, message: Bytes) -> BoxFuture<'a, Result<()>> {
        let channel = self.0.keys.channel(stream.name());
        Box::pin(self.0.publish(channel, b'm', message))
    }

    fn control<'a>(&'a self, to: To<'a>, message: Bytes) -> BoxFuture<'a, Result<()>> {
        let channel = match to {
            To::Node(node) => self.0.keys.node(node),
            To::All => self.0.keys.all_nodes(),
        };
        Box::pin(self.0.publish(channel, b'm', message))
    }

    fn controls(&self) -> Controls {
        self.0.controls.receiver()
    }

    fn presence_enter<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        let now = (self.0.clock)().millis();
        Box::pin(async move {
            let keys = OwnKeys::Presence(self.0.keys.presence(stream));
            self.0
                .invoke(&scripts::ENTER_SCRIPT, &keys, |call| {
                    call.arg(self.0.node.as_str())
                        .arg(now)
                        .arg(now + LEASE.as_millis() as i64)
                        .arg(users);
                })
                .await
        })
    }

    fn presence_leave<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            let keys = OwnKeys::Presence(self.0.keys.presence(stream));
            self.0
                .invoke(&scripts::LEAVE_SCRIPT, &keys, |call| {
                    call.arg(self.0.node.as_str()).arg(users);
                })
                .await
        })
    }

    fn presence_expire<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Vec<String>>> {
        let now = (self.0.clock)().millis();
        Box::pin(async move {
            let keys = OwnKeys::Presence(self.0.keys.presence(stream));
            self.0
                .invoke(&scripts::EXPIRE_SCRIPT, &keys, |call| {
                    call.arg(now);
                })
                .await
        })
    }

    fn presence<'a>(&'a self, stream: &'a Stream, max: usize) -> BoxFuture<'a, Result<Present>> {
        let now = (self.0.clock)().millis();
        Box::pin(async move {
            let keys = OwnKeys::Presence(self.0.keys.presence(stream));
            let (count, listed): (usize, Vec<(String, i64)>) = self
                .0
                .invoke(&scripts::PRESENT_SCRIPT, &keys, |call| {
                    call.arg(now).arg(max);
                })
                .await?;
            let users = listed.into_iter().map(|(user, since)| Member {
                user,
                since: Timestamp::from_millis(since),
            });
            Ok(Present {
                users: users.collect(),
                count,
            })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let mut link = self.0.link().await?;
            with_timeout(link.ping()).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}
