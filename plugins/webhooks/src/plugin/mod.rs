//! The plugin: it checks the settings, registers the consumer of events and starts the worker.

mod audit;
mod checks;
mod config;
mod env;
mod overrides;
mod reads;
mod recover;
mod replay;
mod routes;
mod test;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin::http::{NamedCheck, PluginRoute, RateStore};
use linchpin::openapi::Webhook;
use linchpin::{
    BoxFuture, Environment, Error, Package, Plugin, PostCx, Problem, Result, RouteOverride,
};
use linchpin_safe_client::{Resolve, SafeClient, Settings};
use linchpin_worker::Worker;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::config::WebhooksConfig;
pub(crate) use self::routes::MOUNT;
use crate::catalogue::Catalogue;
use crate::delivery::{Records, Sender, Slots, Workers};
use crate::entity::{ENTITIES, webhook_endpoint};
use crate::event_types::EventType;
use crate::intake::{CONSUMER, Intake};

/// The name of the plugin.
pub(crate) const PLUGIN: &str = "webhooks";
/// At shutdown, the plugin waits at most this long for running attempts: the longest attempt (30 s)
/// and the write of its result.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(35);
/// The guard of the routes that manage endpoints.
pub(crate) const MANAGE: &str = "manage_webhooks";

/// The parts of the plugin. They are empty before the set-up of the app.
#[derive(Clone, Default)]
pub(crate) struct PartsCell(Arc<OnceLock<Parts>>);

/// The parts that routes use.
pub(crate) struct Parts {
    pub(crate) workers: Arc<Workers>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// Counts the tests of endpoints, for their rate limit.
    rates: Arc<dyn RateStore>,
}

impl PartsCell {
    pub(crate) fn parts(&self) -> Result<&Parts> {
        self.0
            .get()
            .ok_or_else(|| Error::unavailable("webhooks are not set up"))
    }
}

/// Webhooks: sends signed events to the URLs of customers after their commit.
///
/// Callers with `management_role` manage endpoints under `/webhooks/endpoints`; the secret of an
/// endpoint is returned only once, when it is created or rotated. An event is delivered at least
/// once to each active endpoint that subscribes to it. The signature follows the Standard Webhooks
/// specification.
///
/// Secrets are encrypted with the data keys of the app. Without a data key, the app does not start.
///
/// ```no_run
/// use linchpin::prelude::*;
/// use linchpin_webhooks::{Webhooks, webhook_events};
///
/// #[entity]
/// #[derive(Clone, Debug)]
/// pub struct Order {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     pub total: i64,
/// }
///
/// static ORDERS: Package = package!(name = "orders", entities = [entity(Order)]);
///
/// # async fn start() -> linchpin::Result<()> {
/// App::new(Config::from_env()?)
///     .plugin(JwtAuth::new())
///     .plugin(Webhooks::new(webhook_events! { Order: [created, updated] }))
///     .package(&ORDERS)
///     .run()
///     .await
/// # }
/// ```
///
/// # Settings
///
/// | Setting | Variable | Default |
/// |---|---|---|
/// | `management_role`: the role that manages endpoints | `LINCHPIN_WEBHOOKS_MANAGEMENT_ROLE` | `admin` |
/// | `allow_http`: endpoints may have the scheme `http` | `LINCHPIN_WEBHOOKS_ALLOW_HTTP` | `false` |
/// | `allow_cidrs`: private networks that are allowed | `LINCHPIN_WEBHOOKS_ALLOW_CIDRS` | none |
/// | `allow_private`: allow them in production too | `LINCHPIN_WEBHOOKS_ALLOW_PRIVATE` | `false` |
/// | `show_addresses`: attempts show the peer's address | `LINCHPIN_WEBHOOKS_SHOW_ADDRESSES` | `false` |
/// | `app_sees_tenants`: endpoints without a tenant get all events | `LINCHPIN_WEBHOOKS_APP_SEES_TENANTS` | `false` |
/// | `compat_headers`: send the headers `x-webhook-*` | `LINCHPIN_WEBHOOKS_COMPAT_HEADERS` | `true` |
/// | `schedule`: seconds between attempts | `LINCHPIN_WEBHOOKS_SCHEDULE` | 5 s to 10 h, 8 attempts |
/// | `disable_after`: seconds of failure until an endpoint is disabled | `LINCHPIN_WEBHOOKS_DISABLE_AFTER` | 5 days |
/// | `workers`: attempts at the same time | `LINCHPIN_WEBHOOKS_WORKERS` | 32 |
/// | `retention`: seconds for which deliveries are kept | `LINCHPIN_WEBHOOKS_RETENTION` | 90 days |
///
/// Only [`WebhooksConfig::from_env`] reads the variables.
pub struct Webhooks {
    catalogue: Arc<Catalogue>,
    config: WebhooksConfig,
    resolver: Option<Arc<dyn Resolve>>,
    cell: PartsCell,
    worker: Mutex<Option<Worker>>,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("catalogue", &self.catalogue)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Creates the plugin with these events and the default settings.
    pub fn new(catalogue: Catalogue) -> Self {
        Self {
            catalogue: Arc::new(catalogue),
            config: WebhooksConfig::default(),
            resolver: None,
            cell: PartsCell::default(),
            worker: Mutex::default(),
        }
    }

    /// Replaces all settings, for example with those of [`WebhooksConfig::from_env`].
    #[must_use]
    pub fn config(mut self, config: WebhooksConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes settings.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut WebhooksConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Replaces the resolver of host names. The default is that of the operating system.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Checks the settings and the catalogue against the app.
    fn problems(&self, cx: &PostCx) -> Vec<Problem> {
        let production = matches!(cx.environment(), Environment::Production);
        let mut problems = self.config.check(production);
        let is_listed = |desc: &linchpin::entity::EntityDesc| {
            let mut entities = cx.entities().iter();
            entities.any(|entry| entry.desc.storage_name == desc.storage_name)
        };
        let mistakes = self.catalogue.problems(is_listed).into_iter();
        problems.extend(mistakes.map(|text| Problem::new("webhooks", "invalid", text)));
        if cx.data_keys().is_none() {
            problems.push(Problem::new(
                "webhooks",
                "required",
                "a data key is required, because the secrets of endpoints are encrypted: set `LINCHPIN_DATA_KEYS`",
            ));
        }
        problems
    }

    fn client(&self, cx: &PostCx) -> Result<SafeClient> {
        let defaults = Settings::default();
        let settings = Settings {
            allow_http: self.config.allow_http,
            allow: self.config.allow_cidrs.clone(),
            own: Arc::clone(cx.listens_on()),
            roots: self.config.roots.clone(),
            resolver: self.resolver.clone().unwrap_or(defaults.resolver),
            user_agent: "Linchpin-Webhooks/1".to_owned(),
            ..Settings::default()
        };
        SafeClient::new(settings).map_err(Error::internal)
    }

    fn set_up(&self, cx: &mut PostCx) -> Result<()> {
        let problems = self.problems(cx);
        let keys = match cx.data_keys() {
            Some(keys) if problems.is_empty() => Arc::clone(keys),
            _ => return Err(Error::validation(problems)),
        };
        // `rekey` encrypts the secrets with a new key.
        cx.sealed_field(webhook_endpoint::sealed)?;
        let role = self.config.management_role.clone();
        cx.registrar().named(
            MANAGE,
            NamedCheck::actor(move |actor| {
                if actor.has_any_role(&[role.as_str()]) {
                    Ok(())
                } else {
                    Err(Error::forbidden())
                }
            }),
        )?;
        let workers = Arc::new(Workers {
            records: Records::new(cx.adapters())?,
            sender: Sender {
                client: self.client(cx)?,
                compat_headers: self.config.compat_headers,
                show_addresses: self.config.show_addresses,
            },
            keys,
            clock: Arc::clone(cx.clock()),
            slots: Arc::new(Slots::new(self.config.workers)),
            wake: Arc::new(Notify::new()),
            config: self.config.clone(),
        });
        let parts = Parts {
            workers: Arc::clone(&workers),
            catalogue: Arc::clone(&self.catalogue),
            rates: Arc::clone(cx.rate_store()),
        };
        self.cell
            .0
            .set(parts)
            .map_err(|_| Error::internal("the plugin was set up twice"))?;
        let intake = Intake {
            catalogue: Arc::clone(&self.catalogue),
            workers,
        };
        cx.registrar().event_sink(CONSUMER, intake);
        Ok(())
    }
}

impl Plugin for Webhooks {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn variables(&self) -> &[&str] {
        if self.config.of_environment {
            &env::VARIABLES
        } else {
            &[]
        }
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&ENTITIES];
        &PACKAGES
    }

    fn routes(&self) -> Vec<PluginRoute> {
        routes::all(&self.cell)
    }

    fn overrides(&self) -> Vec<RouteOverride> {
        overrides::all(&self.cell)
    }

    fn webhooks(&self) -> Vec<Webhook> {
        let types = self.catalogue.event_types().into_iter();
        types.map(EventType::webhook).collect()
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
}
