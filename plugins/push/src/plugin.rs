//! The plugin: it checks the settings and starts the worker.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin::http::{Cors, Credentials, PluginRoute, SessionWatch};
use linchpin::{
    BoxFuture, Command, Cx, Environment, Error, Package, Plugin, PostCx, Problem, Result,
};
use linchpin_safe_client::{Resolve, SafeClient, Settings};
use linchpin_worker::Worker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{PushConfig, VARIABLES};
use crate::crypto::Tokens;
use crate::entity::{ENTITIES, push_subscription};
use crate::queue::PushQueue;
use crate::records::Records;
use crate::sender::{Origins, Sender};
use crate::worker::Workers;
use crate::{command, routes};

/// The name of the plugin.
pub(crate) const PLUGIN: &str = "push";
/// At shutdown, the plugin waits at most this long for running requests and their results.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// A message that is due.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// The user.
    pub user: String,
    /// The [notification](crate::PushMessage::notification) that the message announces.
    pub notification_id: Option<String>,
    /// The [event](crate::PushMessage::event) that led to it.
    pub event_id: String,
}

/// Decides whether a due message is still sent.
pub(crate) type Wanted = Arc<dyn Fn(Cx, Waiting) -> BoxFuture<'static, Result<bool>> + Send + Sync>;

/// The shared state of the routes. It is empty before the set-up of the app.
#[derive(Clone, Default)]
pub(crate) struct PartsCell(Arc<OnceLock<Parts>>);

/// The state that the routes share.
pub(crate) struct Parts {
    pub(crate) workers: Arc<Workers>,
    pub(crate) queue: PushQueue,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    pub(crate) origins: Vec<Cors>,
}

impl PartsCell {
    pub(crate) fn parts(&self) -> Result<&Parts> {
        self.0
            .get()
            .ok_or_else(|| Error::unavailable("push is not set up"))
    }
}

/// Web push: messages to the browsers of users, even if no page of the app is open.
///
/// Pages subscribe at `POST /__push/subscribe` with the key of `GET /__push/vapid-public-key`.
/// [`PushQueue`] sends. The command `push worker` writes the service worker that shows messages,
/// and `push keys` generates the key that identifies the app. See the [crate](crate) for an
/// example.
///
/// The secrets of browsers are encrypted with the data keys of the app; without one the app does not
/// start.
///
/// # Settings
///
/// | Setting | Variable | Default |
/// |---|---|---|
/// | `vapid`: private keys, newest first | `LINCHPIN_PUSH_VAPID` | required |
/// | `subject`: a contact for push services | `LINCHPIN_PUSH_SUBJECT` | required |
/// | `hosts`: the hosts of push services | `LINCHPIN_PUSH_HOSTS` | those of the known browsers |
/// | `require_live_session`: an expired session suspends, too | `LINCHPIN_PUSH_REQUIRE_LIVE_SESSION` | `false` |
/// | `allow_http`: push services may have the scheme `http` | `LINCHPIN_PUSH_ALLOW_HTTP` | `false` |
/// | `allow_cidrs`: private networks that are allowed | `LINCHPIN_PUSH_ALLOW_CIDRS` | none |
/// | `allow_private`: allow them in production too | `LINCHPIN_PUSH_ALLOW_PRIVATE` | `false` |
/// | `workers`: subscriptions that are served at the same time | `LINCHPIN_PUSH_WORKERS` | 32 |
///
/// Only [`PushConfig::from_env`] reads the variables.
pub struct Push {
    config: PushConfig,
    resolver: Option<Arc<dyn Resolve>>,
    wanted: Option<Wanted>,
    serves_worker: bool,
    cell: PartsCell,
    worker: Mutex<Option<Worker>>,
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Push {
    /// Creates the plugin with these settings.
    pub fn new(config: PushConfig) -> Self {
        Self {
            config,
            resolver: None,
            wanted: None,
            serves_worker: false,
            cell: PartsCell::default(),
            worker: Mutex::default(),
        }
    }

    /// Changes settings.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut PushConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Replaces the resolver of host names. The default is that of the operating system.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Calls this function before each attempt. If it returns `false`, the message is not sent: for
    /// example, because its notification has been read. After an error the attempt is made again 30
    /// seconds later.
    #[must_use]
    pub fn wanted<F, Fut>(mut self, wanted: F) -> Self
    where
        F: Fn(Cx, Waiting) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool>> + Send + 'static,
    {
        self.wanted = Some(Arc::new(move |cx, waiting| Box::pin(wanted(cx, waiting))));
        self
    }

    /// Serves the service worker at `/sw.js`. Without it, the web server in front of the app must
    /// serve the file that the command `push worker` writes.
    #[must_use]
    pub fn serve_worker(mut self) -> Self {
        self.serves_worker = true;
        self
    }

    fn client(&self, cx: &PostCx) -> Result<SafeClient> {
        let defaults = Settings::default();
        let settings = Settings {
            allow_http: self.config.allow_http,
            allow: self.config.allow_cidrs.clone(),
            own: Arc::clone(cx.listens_on()),
            roots: self.config.roots.clone(),
            resolver: self.resolver.clone().unwrap_or(defaults.resolver),
            user_agent: "Linchpin-Push/1".to_owned(),
            ..Settings::default()
        };
        SafeClient::new(settings).map_err(Error::internal)
    }

    fn set_up(&self, cx: &mut PostCx) -> Result<()> {
        let production = matches!(cx.environment(), Environment::Production);
        let mut problems = self.config.check(production);
        if cx.data_keys().is_none() {
            problems.push(Problem::new(
                "push",
                "required",
                "a data key is required, because the secrets of browsers are encrypted: set `LINCHPIN_DATA_KEYS`",
            ));
        }
        let keys = match cx.data_keys() {
            Some(keys) if problems.is_empty() => Arc::clone(keys),
            _ => return Err(Error::validation(problems)),
        };
        // `rekey` encrypts the secrets with a new key.
        cx.sealed_field(push_subscription::auth)?;
        let (records, wake) = (Records::new(cx.adapters())?, Arc::new(Notify::new()));
        let queue = PushQueue {
            records: records.clone(),
            wake: Arc::clone(&wake),
        };
        cx.adapters().provide(queue.clone());
        cx.watch_sessions(Sessions(records.clone()));
        let workers = Arc::new(Workers {
            records,
            sender: Sender {
                client: self.client(cx)?,
                tokens: Tokens::default(),
                origins: Origins::default(),
            },
            keys,
            config: self.config.clone(),
            clock: Arc::clone(cx.clock()),
            credentials: cx.credentials().cloned(),
            wanted: self.wanted.clone(),
            wake,
        });
        let parts = Parts {
            workers,
            queue,
            credentials: cx.credentials().cloned(),
            origins: cx.allowed_origins().to_vec(),
        };
        self.cell
            .0
            .set(parts)
            .map_err(|_| Error::internal("the plugin was set up twice"))
    }
}

/// Suspends subscriptions when their session ends, and removes them when their account is deleted.
struct Sessions(Records);

impl SessionWatch for Sessions {
    fn session_ended<'a>(
        &'a self,
        cx: &'a Cx,
        user: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let cx = cx.as_system("the end of a session");
            self.0.subscriptions.suspend(&cx, user, session).await?;
            Ok(())
        })
    }

    fn account_deleted<'a>(&'a self, cx: &'a Cx, user: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let cx = cx.as_system("the end of an account");
            self.0.subscriptions.forget(&cx, user).await?;
            self.0.deliveries.drop(&cx, user).await?;
            Ok(())
        })
    }
}

impl Plugin for Push {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn variables(&self) -> &[&str] {
        if self.config.of_environment {
            &VARIABLES
        } else {
            &[]
        }
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&ENTITIES];
        &PACKAGES
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let mut all = routes::all(&self.cell);
        if self.serves_worker {
            all.push(routes::worker());
        }
        all
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.set_up(cx) })
    }

    fn started(&self) {
        if let Ok(parts) = self.cell.parts() {
            let wake = Arc::clone(&parts.workers.wake);
            *self.worker.lock() = Some(Worker::start(Arc::clone(&parts.workers), wake));
        }
    }

    fn stopping(&self, _: Duration) -> BoxFuture<'_, ()> {
        if let Some(worker) = &*self.worker.lock() {
            worker.stop();
        }
        Box::pin(async {})
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let worker = self.worker.lock().take();
            if let Some(worker) = worker {
                worker.ended(SHUTDOWN_TIMEOUT).await;
            }
            Ok(())
        })
    }

    fn commands(&self) -> Vec<Command> {
        vec![Command::alone(PLUGIN, command::ABOUT, |args, _| {
            command::run(args)
        })]
    }
}
