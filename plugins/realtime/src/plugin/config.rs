//! The settings of the plugin, and their checks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use linchpin::Problem;

use crate::connection::Limits;
use crate::engine::Engine;
#[cfg(feature = "nats")]
use crate::engine::NatsEngineOptions;
#[cfg(feature = "postgres")]
use crate::engine::PostgresEngineOptions;
#[cfg(feature = "redis")]
use crate::engine::RedisEngineOptions;

/// The longest time between two checks of an open subscription.
const MAX_RECHECK: Duration = Duration::from_hours(1);
/// The longest time over which connections are closed when the app stops.
const MAX_DRAIN: Duration = Duration::from_mins(5);

/// The settings of [`Realtime`](super::Realtime). Their names begin with `realtime.`.
#[derive(Clone, Debug)]
pub struct RealtimeConfig {
    /// `engine`: the storage of streams and presence. The default is the memory of the process.
    pub engine: EngineChoice,
    /// `endpoints`: the WebSocket endpoints. The default is `/__ws`.
    pub endpoints: Vec<Endpoint>,
    /// `cluster`: whether several processes serve the app. Then they must share an engine.
    pub cluster: bool,
    /// `recheck_seconds`: the time between two checks of an open subscription: 1 s to 1 h, 60 s by
    /// default.
    pub recheck: Duration,
    /// `drain_seconds`: the time over which connections are closed when the app stops: at most
    /// 5 min, 10 s by default.
    pub drain: Duration,
    /// `first_message_auth`: whether a client without a credential in its handshake may send one in
    /// its first frame. The default is `true`.
    pub first_message_auth: bool,
    /// `limits.*`: the limits of connections.
    pub limits: Limits,
    /// Errors in environment variables.
    pub(super) problems: Vec<Problem>,
    /// Whether environment variables were read.
    pub(super) from_environment: bool,
}

impl Default for RealtimeConfig {
    fn default() -> Self {
        Self {
            engine: EngineChoice::Memory,
            endpoints: vec![Endpoint::new(DEFAULT_ENDPOINT)],
            cluster: false,
            recheck: Duration::from_mins(1),
            drain: Duration::from_secs(10),
            first_message_auth: true,
            limits: Limits::default(),
            problems: Vec::new(),
            from_environment: false,
        }
    }
}

/// The path of the endpoint that channels use by default.
const DEFAULT_ENDPOINT: &str = "/__ws";

/// The storage of streams and presence, and the transport of messages between nodes.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum EngineChoice {
    /// The memory of the process, for one node. After a restart clients fetch their data again.
    #[default]
    Memory,
    /// `PostgreSQL`, for several nodes.
    #[cfg(feature = "postgres")]
    Postgres(PostgresEngineOptions),
    /// Redis 7 or newer, or Valkey, for several nodes.
    #[cfg(feature = "redis")]
    Redis(RedisEngineOptions),
    /// NATS 2.10 or newer with `JetStream`, for several nodes.
    #[cfg(feature = "nats")]
    Nats(NatsEngineOptions),
    /// An engine that the app or a test supplies.
    Own(Arc<dyn Engine>),
}

impl fmt::Debug for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
            #[cfg(feature = "nats")]
            Self::Nats(_) => "nats",
            Self::Own(engine) => engine.facts().name,
        })
    }
}

/// A WebSocket endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The path, such as `/__ws`.
    pub path: String,
    /// Whether clients without a credential act as anonymous callers, instead of sending a token
    /// first.
    pub anonymous: bool,
}

impl Endpoint {
    /// Creates an endpoint whose callers must be authenticated.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            anonymous: false,
        }
    }

    /// Lets clients without a credential act as anonymous callers.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    /// Whether the path has only static segments.
    fn is_legal(&self) -> bool {
        let segment = |text: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'~');
            !text.is_empty() && text.bytes().all(plain) && text != "." && text != ".."
        };
        self.path
            .strip_prefix('/')
            .is_some_and(|path| path.split('/').all(segment))
    }
}

impl RealtimeConfig {
    /// Returns the errors in the settings, each with its key.
    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        problems.extend(self.limits.problems("realtime.limits"));
        let mut check_range = |key: &str, value: Duration, least: Duration, most: Duration| {
            if !(least..=most).contains(&value) {
                let text = format!(
                    "must be {} to {}, not {}",
                    least.as_secs(),
                    most.as_secs(),
                    value.as_secs_f64()
                );
                problems.push(Problem::new(format!("realtime.{key}"), "range", text));
            }
        };
        check_range(
            "recheck_seconds",
            self.recheck,
            Duration::from_secs(1),
            MAX_RECHECK,
        );
        check_range("drain_seconds", self.drain, Duration::ZERO, MAX_DRAIN);
        let mut endpoint = |path: &str, what: &str| {
            let text = format!("`{path}` {what}");
            problems.push(Problem::new("realtime.endpoints", "invalid", text));
        };
        for (at, one) in self.endpoints.iter().enumerate() {
            if !one.is_legal() {
                let text = "must be a path of static segments, such as `/__ws`";
                endpoint(&one.path, text);
            }
            if self.endpoints[..at]
                .iter()
                .any(|other| other.path == one.path)
            {
                endpoint(&one.path, "is listed twice");
            }
        }
        if self.endpoints.is_empty() {
            let text = "must list at least one path, such as `/__ws`";
            problems.push(Problem::new("realtime.endpoints", "invalid", text));
        }
        problems
    }
}
