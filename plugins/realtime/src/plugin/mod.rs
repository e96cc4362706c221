//! The plugin: reads the settings, mounts the endpoints and starts the node.

mod config;
mod counts;
mod engine_error;
mod env;
mod events;
mod many;
mod metrics;
mod node;
mod node_checks;
mod plan;
mod publisher;
mod queued;
mod relay;
#[cfg(test)]
mod relay_tests;
mod routes;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin::http::{Clock, PluginRoute};
use linchpin::{BoxFuture, Error, Package, Plugin, PostCx, Problem, Result};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

pub use self::config::{Endpoint, EngineChoice, RealtimeConfig};
pub use self::counts::Counts;
use self::engine_error::start_error;
pub(crate) use self::node::AddressSlot;
use self::node::{Addresses, Node, NodeSlot, PendingQuestions};
use self::plan::Plan;
use self::publisher::NodePublisher;
use self::relay::{CONSUMER, Relay};
use crate::channel::{Declared, Facts, Publisher, Rooms};
use crate::engine::{Engine, EngineError, MemoryEngine};
use crate::rooms::{HubSettings, RoomHub};

/// The name of the plugin.
pub(crate) const PLUGIN: &str = "realtime";

/// Rooms over WebSocket and endpoints of server-sent events.
///
/// Committed changes of records reach the clients that may read them. A client connects to `/__ws`,
/// joins the room of a record with the frame `{"action":"subscribe","room":"tasks:42:live"}`, and
/// gets the events that the [channel](macro@crate::channel) lists.
///
/// Handlers publish through [`Rooms`], which they get by `adapters.provided::<Rooms>()`. Metrics
/// read [`Counts`] in the same way.
///
/// ```no_run
/// use linchpin::prelude::*;
/// use linchpin_realtime::{Realtime, channel};
/// use linchpin_realtime::channel::Declared;
///
/// #[entity]
/// #[derive(Clone, Debug)]
/// pub struct Task {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     pub title: String,
/// }
///
/// #[channel(of = Task, name = "live")]
/// pub enum TaskLive {
///     #[on(Task::updated, Task::deleted)]
///     Task(Task),
/// }
///
/// static TASKS: Package = package!(name = "tasks", entities = [entity(Task)]);
///
/// # async fn start() -> linchpin::Result<()> {
/// App::new(Config::from_env()?)
///     .plugin(JwtAuth::new())
///     .plugin(Realtime::new(Declared::default().channel::<TaskLive>()))
///     .package(&TASKS)
///     .run()
///     .await
/// # }
/// ```
///
/// # Settings
///
/// | Setting | Variable | Default |
/// |---|---|---|
/// | `engine`: the storage of streams and presence | `LINCHPIN_REALTIME_ENGINE`, `.._ENGINE_URL` | `memory` |
/// | `endpoints`: paths of WebSocket endpoints | `LINCHPIN_REALTIME_ENDPOINTS` | `/__ws` |
/// | `cluster`: several processes serve the app | `LINCHPIN_REALTIME_CLUSTER` | `false` |
/// | `recheck_seconds`: the time between two checks of a subscription | `LINCHPIN_REALTIME_RECHECK_SECONDS` | 60 |
/// | `drain_seconds`: the time over which a stop closes connections | `LINCHPIN_REALTIME_DRAIN_SECONDS` | 10 |
/// | `first_message_auth`: whether the first frame may hold the token | `LINCHPIN_REALTIME_FIRST_MESSAGE_AUTH` | `true` |
/// | `limits.*`: see [`Limits`](crate::connection::Limits) | `LINCHPIN_REALTIME_LIMITS_*` | |
///
/// The plugin reads the variables only with [`RealtimeConfig::from_env`].
#[must_use = "register the plugin with `App::plugin`; otherwise nothing is served"]
pub struct Realtime {
    declared: Declared,
    config: RealtimeConfig,
    node: NodeSlot,
    /// The tasks that run while the app is running.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Realtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realtime")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Realtime {
    /// Creates the plugin with these channels and endpoints, and the default settings.
    pub fn new(declared: Declared) -> Self {
        Self {
            declared,
            config: RealtimeConfig::default(),
            node: Arc::new(OnceLock::new()),
            tasks: Mutex::default(),
        }
    }

    /// Replaces all settings, for example with [`RealtimeConfig::from_env`].
    pub fn config(mut self, config: RealtimeConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes settings.
    pub fn configure(mut self, change: impl FnOnce(&mut RealtimeConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the engine.
    pub fn engine(self, engine: EngineChoice) -> Self {
        self.configure(|config| config.engine = engine)
    }

    /// Adds a WebSocket endpoint.
    pub fn endpoint(self, endpoint: Endpoint) -> Self {
        self.configure(|config| config.endpoints.push(endpoint))
    }

    /// Creates the engine without starting it.
    #[cfg_attr(
        not(any(feature = "nats", feature = "postgres", feature = "redis")),
        allow(clippy::unnecessary_wraps) // engines with a server can refuse their options
    )]
    fn make_engine(&self, clock: &Clock) -> Result<Arc<dyn Engine>, EngineError> {
        Ok(match &self.config.engine {
            EngineChoice::Memory => Arc::new(MemoryEngine::new(Arc::clone(clock))),
            #[cfg(feature = "postgres")]
            EngineChoice::Postgres(options) => {
                use crate::engine::PostgresEngine;
                Arc::new(PostgresEngine::new(options, Arc::clone(clock))?)
            }
            #[cfg(feature = "redis")]
            EngineChoice::Redis(options) => {
                use crate::engine::RedisEngine;
                Arc::new(RedisEngine::new(options, Arc::clone(clock))?)
            }
            #[cfg(feature = "nats")]
            EngineChoice::Nats(options) => {
                use crate::engine::NatsEngine;
                Arc::new(NatsEngine::new(options, Arc::clone(clock))?)
            }
            EngineChoice::Own(engine) => Arc::clone(engine),
        })
    }

    /// Returns all contradictions between settings, declarations and the app.
    fn check(&self, cx: &PostCx, engine: &dyn Engine) -> Vec<Problem> {
        let mut problems = self.config.check();
        let others = cx.routes().iter();
        let others = others.filter(|route| route.plugin != Some(PLUGIN));
        let routes: Vec<(String, String)> = others
            .map(|route| (route.method.to_owned(), route.path.clone()))
            .collect();
        let sockets = self.config.endpoints.iter();
        let sockets: Vec<String> = sockets.map(|endpoint| endpoint.path.clone()).collect();
        let facts = engine.facts();
        let contradictions = self.declared.check(&Facts {
            entities: cx.entities(),
            routes: &routes,
            sockets: &sockets,
            engine: facts.name,
            shared: facts.cluster,
            persistent: facts.persistent,
            cluster: self.config.cluster,
        });
        let problem = |text| Problem::new("realtime", "invalid", text);
        problems.extend(contradictions.into_iter().map(problem));
        let users = self.config.endpoints.iter().find(|one| !one.anonymous);
        if let Some(endpoint) = users.filter(|_| cx.credentials().is_none()) {
            let text = format!(
                "endpoint `{}` requires authenticated callers, but no plugin checks credentials: add \
                 `linchpin_auth::Auth` or `JwtAuth`, or declare the endpoint with `Endpoint::anonymous`",
                endpoint.path
            );
            problems.push(Problem::new("realtime.endpoints", "invalid", text));
        }
        problems
    }

    async fn set_up(&self, cx: &mut PostCx) -> Result<()> {
        let clock = Arc::clone(cx.clock());
        let failed = |cause: EngineError| start_error(&self.config.engine, &cause);
        let engine = self.make_engine(&clock).map_err(failed)?;
        let problems = self.check(cx, &*engine);
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        let plan = Arc::new(Plan::new(&self.declared, cx.adapters())?);
        let publisher: Arc<dyn Publisher> = Arc::new(NodePublisher {
            node: Arc::clone(&self.node),
            adapters: cx.adapters().clone(),
            plan: Arc::clone(&plan),
            channels: self.declared.channels().to_vec(),
        });
        let rooms = Rooms::new(publisher);
        let limits = Arc::new(self.config.limits.clone());
        let hub = RoomHub::new(
            HubSettings {
                engine: Arc::clone(&engine),
                declared: self.declared.clone(),
                caller: cx.route_caller().clone(),
                credentials: cx.credentials().cloned(),
                limits: Arc::clone(&limits),
                clock: Arc::clone(&clock),
                recheck: self.config.recheck,
                rooms: rooms.clone(),
                rates: Arc::clone(cx.rate_store()),
            },
            cx.adapters(),
        )?;
        engine.start().await.map_err(failed)?;
        let endpoints = self.config.endpoints.iter();
        let streams = self.declared.endpoints().iter();
        let counts = Counts::new(
            endpoints
                .map(|endpoint| endpoint.path.clone())
                .chain(streams.map(|endpoint| endpoint.path.to_owned())),
        );

        let node = Arc::new(Node {
            hub,
            engine: Arc::clone(&engine),
            limits,
            clock,
            credentials: cx.credentials().cloned(),
            origins: cx.allowed_origins().to_vec(),
            rates: Arc::clone(cx.rate_store()),
            counts: counts.clone(),
            drain: self.config.drain,
            draining: AtomicBool::new(false),
            addresses: Addresses::default(),
            questions: PendingQuestions::default(),
        });
        self.node
            .set(node)
            .map_err(|_| Error::internal("the plugin was set up twice"))?;
        cx.adapters().provide(rooms);
        cx.adapters().provide(counts);
        let relay = Relay::new(plan, engine);
        cx.registrar().event_sink(CONSUMER, relay);
        Ok(())
    }
}

impl Plugin for Realtime {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn variables(&self) -> &[&str] {
        if self.config.from_environment {
            &env::VARIABLES
        } else {
            &[]
        }
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&queued::QUEUED];
        if queued::is_needed(&self.declared) {
            &PACKAGES
        } else {
            &[]
        }
    }

    fn routes(&self) -> Vec<PluginRoute> {
        routes::all(&self.config, &self.declared, &self.node)
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.set_up(cx))
    }

    fn started(&self) {
        if let Some(node) = self.node.get() {
            let mut tasks = self.tasks.lock();
            tasks.push(tokio::spawn(Arc::clone(&node.hub).watch()));
            tasks.push(tokio::spawn(Arc::clone(node).listen()));
            tasks.push(tokio::spawn(metrics::publish(node.counts.clone())));
        }
    }

    fn stopping(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(node) = self.node.get() {
                node.stop(grace).await;
            }
        })
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let tasks = std::mem::take(&mut *self.tasks.lock());
            for task in tasks {
                task.abort();
                // The task must have ended before the engine is closed.
                drop(task.await);
            }
            if let Some(node) = self.node.get() {
                node.engine.close().await;
            }
            Ok(())
        })
    }
}
