//! The engine on NATS (2.10 or newer) with `JetStream`.
//!
//! The position and the frames of a stream are the messages of one subject. An append
//! succeeds only if the last message that it has read is still the last one, so it is atomic. The
//! server publishes each stored message again on a subject of the stream, to which the nodes that
//! serve the stream subscribe.

mod append;
mod link;
mod listener;
mod names;
mod presence;
mod renewal;
mod start;
mod state;
mod store;
mod streams;
mod tops;
mod upkeep;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::hash::RandomState;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::Client;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use linchpin::BoxFuture;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use self::link::Address;
use self::names::Names;
use self::tops::{AT_ONCE, Known};
use super::feed::{Feeds, Source, Subscription, read_history};
use super::node::ControlSender;
use super::{
    Append, Attendance, Clock, Controls, Engine, Facts, NodeId, Position, PresenceChanges, Present,
    Result, Slice, Stream, To,
};

/// The time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call waits for a new connection after the old one was lost.
const RECONNECT: Duration = Duration::from_millis(300);
/// The time limit of a step that needs several requests, or that waits for other calls.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of streams whose state a node remembers. A state has up to 50 KB.
const REMEMBERED: usize = 1024;

/// The addresses of the servers, and settings for the engine's streams and subjects.
#[derive(Clone)]
pub struct NatsEngineOptions {
    /// `nats://user:password@host:port` or `nats://token@host:port`, with `tls://` for
    /// encrypted connections. For a cluster, give the addresses of some of its servers. All of them
    /// must have the same scheme and credentials.
    pub urls: Vec<String>,
    /// The first token of all subjects, and the prefix of the names of the `JetStream` streams. It
    /// may have letters, digits, `_` and `-`. Apps that share an account need different prefixes.
    pub prefix: String,
    /// The number of servers that store each message, for streams that the engine creates.
    pub replicas: u8,
    /// The interval at which the server is checked and streams are compared with their tops.
    pub check: Duration,
}

impl NatsEngineOptions {
    /// The prefix is `linchpin`, one server stores each message, and the check runs every
    /// 5 seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            prefix: "linchpin".to_owned(),
            replicas: 1,
            check: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for NatsEngineOptions {
    // The output omits the URLs, because they contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngineOptions")
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// The engine on NATS with `JetStream`, for several nodes.
///
/// Positions and frames survive a restart of the app and of the server. The engine detects data
/// that was lost or restored, and reports a reset.
pub struct NatsEngine(Arc<Inner>);

struct Inner {
    /// A reference to itself, for the tasks that pass on messages.
    own: Weak<Self>,
    node: NodeId,
    clock: Clock,
    names: Names,
    address: Address,
    replicas: u8,
    check: Duration,
    feeds: Arc<Feeds>,
    controls: ControlSender,
    state: watch::Sender<State>,
    driver: Mutex<Option<Client>>,
    /// The last refusal that the server sent without an answer to a request.
    refusals: watch::Sender<String>,
    /// The tasks that listen to streams.
    listeners: Mutex<HashMap<String, AbortHandle>>,
    /// The states of the streams that the node appends to.
    slots: Cache<String, Slot>,
    /// The streams that the node has appended to, and when.
    written: Mutex<HashMap<String, (Stream, i64)>>,
    /// Locks for changes of leases.
    locks: [tokio::sync::Mutex<()>; presence::LOCKS],
    hasher: RandomState,
    tasks: Mutex<JoinSet<()>>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Known>>>;

#[derive(Clone)]
enum State {
    /// There is no connection.
    Disconnected,
    /// The connection with a number.
    Connected(Client, u64),
    Closed,
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngine")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl NatsEngine {
    /// Creates an engine that connects when it is started. It needs a tokio runtime.
    ///
    /// # Errors
    /// [`Failed`](super::EngineError::Failed) if a URL or the prefix is not valid; the message
    /// contains no password.
    pub fn new(options: &NatsEngineOptions, clock: Clock) -> Result<Self> {
        let (names, address) = (Names::new(&options.prefix)?, Address::new(options)?);
        Ok(Self(Arc::new_cyclic(|own| Inner {
            own: own.clone(),
            node: NodeId::random(),
            clock,
            names,
            address,
            replicas: options.replicas,
            check: options.check,
            feeds: Arc::default(),
            controls: ControlSender::default(),
            state: watch::Sender::new(State::Disconnected),
            driver: Mutex::default(),
            refusals: watch::Sender::default(),
            listeners: Mutex::default(),
            slots: Cache::new(REMEMBERED),
            written: Mutex::default(),
            locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            hasher: RandomState::new(),
            tasks: Mutex::default(),
        })))
    }
}

impl Inner {
    /// Returns the state of a stream that the node remembers.
    fn slot(&self, stream: &str) -> Slot {
        let slot = self
            .slots
            .get_or_insert_with(stream, || Ok::<_, Infallible>(Slot::default()));
        match slot {
            Ok(slot) => slot,
            Err(never) => match never {},
        }
    }

    /// Forgets all states, because the server may have lost their data.
    fn forget(&self) {
        self.slots.clear();
    }

    /// Ends the tasks of the engine.
    async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }

    async fn close(&self) {
        self.state.send_replace(State::Closed);
        self.feeds.close();
        self.controls.close();
        self.end_tasks().await;
        for (_, task) in self.listeners.lock().drain() {
            task.abort();
        }
        self.driver.lock().take();
    }
}

impl Engine for NatsEngine {
    fn facts(&self) -> Facts {
        Facts {
            name: "nats",
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
        Box::pin(append::append(&self.0, batch))
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
        Box::pin(async { Ok(self.0.open(stream).await?.state.top) })
    }

    fn subscribe<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Subscription>> {
        let source = Arc::clone(&self.0) as Arc<dyn Source>;
        Box::pin(self.0.feeds.subscribe(source, stream))
    }

    fn renew(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(renewal::renew(&self.0))
    }

    fn send<'a>(&'a self, stream: &'a Stream, message: Bytes) -> BoxFuture<'a, Result<()>> {
        let subject = self.0.names.live(Some(stream.name()));
        Box::pin(async move { self.0.publish(subject, listener::MESSAGE, &message).await })
    }

    fn control<'a>(&'a self, to: To<'a>, message: Bytes) -> BoxFuture<'a, Result<()>> {
        let subject = match to {
            To::Node(node) => self.0.names.node(node),
            To::All => self.0.names.all_nodes(),
        };
        Box::pin(async move { self.0.publish(subject, listener::MESSAGE, &message).await })
    }

    fn controls(&self) -> Controls {
        self.0.controls.receiver()
    }

    fn presence_enter<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.0.enter(stream, users))
    }

    fn presence_leave<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.0.exit(stream, users))
    }

    fn presence_expire<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.0.expire(stream))
    }

    fn presence_renew<'a>(
        &'a self,
        all: &'a [Attendance],
    ) -> BoxFuture<'a, Result<Vec<PresenceChanges>>> {
        let renew = move |one: &'a Attendance| async move {
            let users: Vec<&str> = one.users.iter().map(String::as_str).collect();
            self.0.renew_leases(&one.stream, &users).await
        };
        Box::pin(stream::iter(all).map(renew).buffered(AT_ONCE).try_collect())
    }

    fn presence<'a>(&'a self, stream: &'a Stream, max: usize) -> BoxFuture<'a, Result<Present>> {
        Box::pin(self.0.present(stream, max))
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.0.identity().await.map(drop) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}
