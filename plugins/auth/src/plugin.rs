//! The plugin: it reads the settings and registers routes, the actor resolver and guards.

use std::sync::{Arc, OnceLock};

use linchpin::http::{Cors, PluginRoute};
use linchpin::openapi::Security;
use linchpin::{
    BoxFuture, Command, Error, MiddlewareCx, Package, Plugin, PostCx, Result, RoutesCx, Timestamp,
};
use parking_lot::Mutex;

use crate::config::{AuthConfig, Checked, ProviderSection, RefreshSection, Transport};
use crate::core::Core;
use crate::credentials::Connections;
use crate::entities::ENTITIES;
use crate::env::{Clock, Env, MonotonicClock};
use crate::flow::{OutboxTasks, Purge};
use crate::guards;
use crate::hooks::AuthHooks;
use crate::identity::PrimaryField;
use crate::outbox::{MAX_TASK_DURATION, Worker};
use crate::resolver::Resolver;
use crate::routes::{self, CoreCell, PLUGIN};
use crate::service::AuthService;
use crate::session::bus::BusConnection;

/// Authentication: accounts, sessions, guards, and an actor on every request.
///
/// ```no_run
/// # use linchpin::prelude::*;
/// # use linchpin_auth::Auth;
/// # static BLOG: Package = package!(name = "blog", entities = []);
/// # async fn start() -> linchpin::Result<()> {
/// App::new(Config::from_env()?).plugin(Auth::new().roles(["admin", "member"]).default_role("member")).package(&BLOG).run().await
/// # }
/// ```
pub struct Auth {
    config: AuthConfig,
    core: CoreCell,
    /// The checked settings, between `setup_middleware` and `setup_routes`.
    checked: Mutex<Option<(Checked, Env)>>,
    /// Origins whose requests may carry cookies according to the CORS lists of the app, although
    /// `security.allowedOrigins` does not list them. Start-up logs a warning for each.
    foreign: Mutex<Vec<String>>,
    /// Processes the outbox while the app runs.
    worker: Mutex<Option<Worker>>,
    /// Deletes accounts whose deletion is due, while the app runs.
    purge: Mutex<Option<Purge>>,
    /// The connection to the `InvalidationBus`, while the app runs.
    bus_connection: Mutex<Option<BusConnection>>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self::new()
    }
}

impl Auth {
    /// Creates the plugin with the default settings: accounts are identified by email address, and
    /// keys are derived from the secret of the app. It reads no environment variables;
    /// [`Auth::from_env`] does.
    pub fn new() -> Self {
        Self::from_config(AuthConfig::default())
    }

    /// Creates the plugin with settings from the environment; see [`AuthConfig::from_env`].
    pub fn from_env() -> Self {
        Self::from_config(AuthConfig::from_env())
    }

    /// Creates the plugin with these settings; see [`AuthConfig::from_json`].
    pub fn from_config(config: AuthConfig) -> Self {
        Self {
            config,
            core: Arc::new(OnceLock::new()),
            checked: Mutex::new(None),
            foreign: Mutex::new(Vec::new()),
            worker: Mutex::new(None),
            purge: Mutex::new(None),
            bus_connection: Mutex::new(None),
        }
    }

    /// Changes any setting.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut AuthConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the roles of the app. No other role can be assigned.
    #[must_use]
    pub fn roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> Self {
        self.configure(|config| config.auth.roles = roles.into_iter().map(Into::into).collect())
    }

    /// Sets the role of new accounts.
    #[must_use]
    pub fn default_role(self, role: impl Into<String>) -> Self {
        self.configure(|config| config.auth.default_role = Some(role.into()))
    }

    /// Sets the kind of identifier: email address, user name or phone number.
    #[must_use]
    pub fn primary_field(self, field: PrimaryField) -> Self {
        self.configure(|config| config.auth.primary_field = field)
    }

    /// Sets how clients carry their session: in cookies, in headers, or both.
    #[must_use]
    pub fn transport(self, transport: Transport) -> Self {
        self.configure(|config| config.auth.session.transport = transport)
    }

    /// Enables refresh tokens: access tokens are short-lived and renewed by refresh tokens.
    #[must_use]
    pub fn refresh_tokens(self) -> Self {
        self.configure(|config| {
            config.auth.refresh = RefreshSection {
                enabled: true,
                ..config.auth.refresh.clone()
            }
        })
    }

    /// Adds an external provider: a preset such as `google` or `github`, or any other id with an
    /// issuer.
    ///
    /// ```
    /// # use linchpin_auth::{Auth, ProviderSection};
    /// let auth = Auth::new()
    ///     .provider("github", ProviderSection::new("client-id").secret("client-secret".to_owned()))
    ///     .provider("work", ProviderSection::new("client-id").issuer("https://login.example.com"));
    /// ```
    #[must_use]
    pub fn provider(self, id: impl Into<String>, provider: ProviderSection) -> Self {
        self.configure(|config| drop(config.auth.oauth.providers.insert(id.into(), provider)))
    }

    /// Sets functions of the app that run before and after sign-ups, sign-ins and other events.
    #[must_use]
    pub fn hooks(self, hooks: impl AuthHooks) -> Self {
        self.configure(|config| config.auth.hooks = Some(Arc::new(hooks)))
    }

    /// Replaces the clock and the source of randomness, for tests.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        self.configure(|config| config.auth.env = Some(env))
    }
}

/// Minimum length of a password that is the only factor (NIST SP 800-63B).
const MIN_SOLE_PASSWORD: u64 = 15;

/// The origins in these CORS lists whose requests may carry cookies and that are not in `allowed`.
fn foreign(lists: &[Cors], allowed: &[String], cookies: bool) -> Vec<String> {
    let carrying = lists
        .iter()
        .filter(|list| list.credentials && cookies)
        .flat_map(|list| &list.origins);
    carrying
        .filter(|origin| !allowed.contains(origin))
        .cloned()
        .collect()
}

/// The clock of the app.
struct AppClock(linchpin::http::Clock);

impl Clock for AppClock {
    fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Plugin for Auth {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn variables(&self) -> &[&str] {
        if self.config.from_environment {
            &crate::config::VARIABLES
        } else {
            &[]
        }
    }

    fn packages(&self) -> &[&'static Package] {
        static PACKAGES: [&Package; 1] = [&ENTITIES];
        &PACKAGES
    }

    fn routes(&self) -> Vec<PluginRoute> {
        routes::all(&self.config, &self.core)
    }

    fn security(&self) -> Vec<Security> {
        guards::security(&self.config)
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let clock: Arc<dyn Clock> = Arc::new(AppClock(Arc::clone(cx.clock())));
            let mut env = self.config.auth.env.clone().unwrap_or_else(|| Env {
                clock,
                ..Env::system()
            });
            env.clock = Arc::new(MonotonicClock::over(env.clock));
            let checked = self
                .config
                .clone()
                .check(cx.signing_secrets(), cx.environment())?;
            let (allowed, cookies) = (
                &checked.config.security.allowed_origins,
                checked.config.auth.session.transport.cookies(),
            );
            *self.foreign.lock() = foreign(cx.allowed_origins(), allowed, cookies);
            // Pages of these origins change data, so they must be able to read the responses.
            cx.allow_origins(allowed.iter().cloned(), cookies)?;
            cx.add_data_keys(checked.config.data_keys(&checked.ring))?;
            *self.checked.lock() = Some((checked, env));
            cx.set_credentials(Arc::new(Connections::new(Arc::clone(&self.core))))?;
            cx.set_actor_resolver(Arc::new(Resolver::new(Arc::clone(&self.core))))
        })
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let (checked, env) = self
                .checked
                .lock()
                .take()
                .ok_or_else(|| Error::internal("the settings were not checked"))?;
            let self_checked_paths = routes::self_checking_paths(&checked.config);
            let (keys, adapters) = (cx.require_data_keys()?, cx.adapters().clone());
            let core = Arc::new(Core::new(checked, env, keys, adapters, self_checked_paths)?);
            cx.adapters().provide(AuthService::new(Arc::clone(&core)));
            if core.config.auth.pages.enabled == Some(true) {
                let base = format!("{}{}", core.config.auth.mount, routes::pages::BASE);
                cx.route(&format!("{base}/"), routes::pages::home(&core));
                cx.nest(&base, routes::pages::router(&core));
            }
            self.core
                .set(core)
                .map_err(|_| Error::internal("the plugin was set up twice"))
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let auth = &self.config.auth;
            // An empty list counts too: then any role in a policy is a start-up error.
            cx.registrar()
                .roles_of("auth.roles", auth.roles.iter().cloned());
            if let Some(core) = self.core.get() {
                crate::flow::register_sealed(core, cx)?;
                if let (Some(bus), Some(receiver)) =
                    (&auth.session.bus, core.invalidations.lock().take())
                {
                    *self.bus_connection.lock() =
                        Some(BusConnection::open(bus, &core.checks, receiver));
                }
            }
            cx.registrar().set_route_auth(guards::registry(
                &auth.step_up,
                auth.admin_role.as_deref(),
                !self.config.security.api_credentials.is_empty(),
            ))
        })
    }

    fn started(&self) {
        if let Some(core) = self.core.get() {
            let (password, required) = (&core.config.auth.password, core.config.auth.mfa.required);
            if password.enabled && password.min_length < MIN_SOLE_PASSWORD && !required {
                let min_length = password.min_length;
                tracing::warn!(
                    "a password of {min_length} characters may be the only protection of an account: raise \
                     auth.password.minLength to {MIN_SOLE_PASSWORD}, or set auth.mfa.required"
                );
            }
            for origin in self.foreign.lock().drain(..) {
                tracing::warn!(
                    "pages of {origin} may read responses with cookies, but their requests that sign in \
                     or change data are refused: add this origin to security.allowedOrigins"
                );
            }
            *self.worker.lock() = Some(
                core.parts
                    .outbox
                    .start_worker(Arc::new(OutboxTasks(Arc::clone(core)))),
            );
            *self.purge.lock() = Some(Purge::start(Arc::clone(core)));
        }
    }

    fn commands(&self) -> Vec<Command> {
        crate::commands::all()
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            drop(self.bus_connection.lock().take());
            let purge = self.purge.lock().take();
            if let Some(purge) = purge {
                purge.stop().await;
            }
            let worker = self.worker.lock().take();
            if let Some(worker) = worker {
                worker.ended(MAX_TASK_DURATION).await;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_with_cookies_that_are_not_allowed_are_reported() {
        let list = |credentials: bool| Cors {
            origins: vec!["https://a.test".to_owned(), "https://b.test".to_owned()],
            credentials,
        };
        let allowed = ["https://a.test".to_owned()];
        assert_eq!(foreign(&[list(true)], &allowed, true), ["https://b.test"]);
        // A list without credentials is harmless.
        assert!(
            foreign(&[list(false)], &allowed, true).is_empty()
                && foreign(&[list(true)], &allowed, false).is_empty()
        );
    }
}
