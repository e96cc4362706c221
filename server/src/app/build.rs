//! What an app is made of, as its author puts it together; [`super::start`] makes a server of it.

use std::sync::Arc;
use std::time::Duration;

use super::config::Config;
use super::plugin::{Command, Plugin};
use crate::entity::{Entity, EntityDesc};
use crate::event::{Event, EventSink, Hub};
use crate::http::{Action, Clock, Endpoint, Override, OverrideCall, RateStore, RouteGuard};
use crate::operation::{OpSpec, Operation};
use crate::resource::{Adapters, BoxFuture, Outcome};
use crate::search::{Providers, SearchProvider};
use crate::store::{Store, StoreProvider};
use crate::{Package, Result, Timestamp};

/// An application: a config, plugins and packages.
///
/// ```no_run
/// # use linchpin::prelude::*;
/// # static BLOG: Package = package!(name = "blog", entities = []);
/// # async fn start() -> linchpin::Result<()> {
/// App::new(Config::from_env()?).plugin(JwtAuth::new()).package(&BLOG).run().await
/// # }
/// ```
pub struct App {
    pub(super) config: Config,
    pub(super) plugins: Vec<Box<dyn Plugin>>,
    /// Those of plugins behind those of the app.
    pub(super) packages: Vec<&'static Package>,
    /// How many of them are the app's own.
    own_packages: usize,
    pub(super) clock: Clock,
    pub(super) overrides: Vec<Replacement>,
    pub(super) title: Option<String>,
    pub(super) version: Option<String>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) providers: Vec<Box<dyn StoreProvider>>,
    pub(super) sweep_every: Duration,
    pub(super) rates: Option<Arc<dyn RateStore>>,
    pub(super) hooks: Vec<Hook>,
    /// As written: a pattern that is none is told with everything else that is wrong.
    pub(super) guards: Vec<(String, RouteGuard)>,
    /// Whether there is an audit log also when no route is audited.
    pub(super) audit: bool,
    pub(super) keep_audit: Option<Duration>,
    pub(super) own_commands: Vec<Command>,
    pub(super) events: Hub,
    pub(super) searches: Providers,
}

/// An override: whose route, which one, and what runs instead.
pub(super) struct Replacement {
    pub(super) entity: &'static EntityDesc,
    pub(super) name: &'static str,
    /// The methods of a collection, which have routes of their own.
    parts: &'static [&'static OpSpec],
    pub(super) run: Override,
}

impl Replacement {
    fn new<E, F, Fut>(name: &'static str, parts: &'static [&'static OpSpec], run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        Self {
            entity: E::DESC,
            name,
            parts,
            run: Arc::new(move |call| Box::pin(run(call))),
        }
    }

    pub(super) fn is_of(&self, endpoint: &Endpoint) -> bool {
        let of_entity = endpoint
            .table
            .as_ref()
            .is_some_and(|t| t.desc.storage_name == self.entity.storage_name);
        let named =
            endpoint.name == self.name || self.parts.iter().any(|part| part.name == endpoint.name);
        of_entity && named && !matches!(endpoint.action, Action::Extra(_))
    }
}

pub(super) type Hook = Box<dyn FnOnce(Adapters) -> BoxFuture<'static, Result<()>> + Send>;

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plugins: Vec<&str> = self.plugins.iter().map(|p| p.name()).collect();
        f.debug_struct("App")
            .field("config", &self.config)
            .field("plugins", &plugins)
            .finish_non_exhaustive()
    }
}

/// How often expired records are removed.
const SWEEP: Duration = Duration::from_mins(1);

/// One of the five generated routes, for overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /{entity}`.
    Create,
    /// `GET /{entity}`.
    List,
    /// `GET /{entity}/{id}`.
    Get,
    /// `PATCH /{entity}/{id}`.
    Update,
    /// `DELETE /{entity}/{id}`.
    Delete,
}

impl Route {
    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::List => "list",
            Self::Get => "get",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl App {
    /// An app without plugins and packages.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            plugins: Vec::new(),
            packages: Vec::new(),
            own_packages: 0,
            clock: Arc::new(Timestamp::system_now),
            overrides: Vec::new(),
            title: None,
            version: None,
            store: None,
            providers: Vec::new(),
            sweep_every: SWEEP,
            rates: None,
            hooks: Vec::new(),
            guards: Vec::new(),
            audit: false,
            keep_audit: None,
            own_commands: Vec::new(),
            events: Hub::default(),
            searches: Providers::default(),
        }
    }

    /// Adds a plugin.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.packages.extend_from_slice(plugin.packages());
        self.config.leave(plugin.variables());
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Adds a package.
    #[must_use]
    pub fn package(mut self, package: &'static Package) -> Self {
        self.packages.insert(self.own_packages, package);
        self.own_packages += 1;
        self
    }

    /// The title of the API in its OpenAPI document: the name of the first package unless it is
    /// given here.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The version of the API in its OpenAPI document: that of the first package's crate unless it
    /// is given here.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds a store of another crate: a database URL with one of its schemes opens it. The stores of
    /// this build need no registration. Two stores with one name or one scheme are a start-up
    /// error.
    ///
    /// ```
    /// # use linchpin::prelude::*;
    /// use linchpin::store::StoreProvider;
    ///
    /// fn app(toy: impl StoreProvider) -> App {
    ///     App::new(Config::new().database("toy:box")).store_provider(toy)
    /// }
    /// ```
    #[must_use]
    pub fn store_provider(mut self, provider: impl StoreProvider) -> Self {
        self.config.leave(provider.kind().variables);
        self.providers.push(Box::new(provider));
        self
    }

    /// Uses this store in place of the one that the configuration names. For tests, and for stores
    /// that no URL can describe.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// What the OpenAPI document says of the API.
    pub(super) fn info(&self) -> crate::openapi::Info {
        let first = self.packages.first().filter(|_| self.own_packages > 0);
        let title = self
            .title
            .clone()
            .unwrap_or_else(|| first.map_or("API", |p| p.name).to_owned());
        let version = self
            .version
            .clone()
            .unwrap_or_else(|| first.map_or("0.0.0", |p| p.version).to_owned());
        crate::openapi::Info::new(title, version)
    }

    /// What it says of how callers prove who they are.
    pub(super) fn security(&self) -> Vec<crate::openapi::Security> {
        self.plugins
            .iter()
            .flat_map(|plugin| plugin.security())
            .collect()
    }

    /// Replaces the clock that gives each call its `now`: over HTTP, and from code with
    /// [`Cx::system`](crate::Cx::system) and [`Cx::actor`](crate::Cx::actor).
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Replaces how often expired records are removed from the store: every 60 seconds. Nobody sees
    /// them meanwhile.
    #[must_use]
    pub fn sweep_every(mut self, period: Duration) -> Self {
        self.sweep_every = period;
        self
    }

    /// Replaces where calls are counted for `rate_limit`: in this process.
    #[must_use]
    pub fn rate_store(mut self, store: impl RateStore) -> Self {
        self.rates = Some(Arc::new(store));
        self
    }

    /// Replaces the executor of an operation's routes; policy, parsing, validation and projection
    /// stay. For a collection it stands for each of its methods, and [`OverrideCall::route`] tells
    /// which one is called.
    #[must_use]
    pub fn override_operation<E, F, Fut>(mut self, operation: Operation<E>, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        self.overrides.push(Replacement::new::<E, _, _>(
            operation.spec().name,
            operation.spec().parts,
            run,
        ));
        self
    }

    /// Replaces the executor of a generated route of `E`; policy, parsing, validation and
    /// projection stay.
    #[must_use]
    pub fn override_route<E, F, Fut>(mut self, route: Route, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        self.overrides
            .push(Replacement::new::<E, _, _>(route.name(), &[], run));
        self
    }

    /// Puts a guard before every route whose path matches a pattern: those of packages, of plugins
    /// and of the app itself, in addition to their own policy. In a pattern, `{name}` is any one
    /// segment, and `{*rest}` at its end all that follow, none included: `/admin/{*rest}` stands
    /// before `/admin` as well. Several guards are asked in the order in which they are added.
    ///
    /// A pattern that matches no route is a start-up error.
    ///
    /// ```
    /// # use linchpin::prelude::*;
    /// # fn with(config: Config) -> App {
    /// App::new(config).guard("/admin/{*rest}", require_role(["admin"]))
    /// # }
    /// ```
    #[must_use]
    pub fn guard(mut self, pattern: impl Into<String>, guard: RouteGuard) -> Self {
        self.guards.push((pattern.into(), guard));
        self
    }

    /// Runs once adapters exist and before anything is served, so that handlers can capture
    /// adapters of other entities.
    #[must_use]
    pub fn after_adapters<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(Adapters) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.hooks
            .push(Box::new(move |adapters| Box::pin(hook(adapters))));
        self
    }

    /// Adds a command to the app's command line, such as `seed`. It runs over the app's store
    /// without listening, with the arguments behind its name; what it returns is printed. Plugins
    /// add theirs by [`Plugin::commands`].
    #[must_use]
    pub fn command<F, Fut>(mut self, name: &'static str, about: &'static str, run: F) -> Self
    where
        F: FnOnce(Adapters, Vec<String>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        self.own_commands.push(Command::over(name, about, run));
        self
    }

    /// Adds a consumer of the events of every entity, under a name of its own that it keeps from
    /// start to start: what it has not had when the program ends, it is given after the next start.
    ///
    /// Without a consumer, a subscription or a route that names an `event`, nothing is recorded.
    #[must_use]
    pub fn event_sink(mut self, name: impl Into<String>, sink: impl EventSink) -> Self {
        self.events.sink(name.into(), Arc::new(sink));
        self
    }

    /// Adds a consumer of the events of `E`, one at a time, under a name of its own as for
    /// [`App::event_sink`]. An event whose handling fails is offered again, before any that
    /// follows. [`Event::adapter`] reaches the records of the app.
    #[must_use]
    pub fn on_event<E, F, Fut>(mut self, name: impl Into<String>, handle: F) -> Self
    where
        E: Entity,
        F: Fn(Event<E>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.events.handler(name.into(), handle);
        self
    }

    /// Replaces how long delivered events are kept in the store: 7 days.
    #[must_use]
    pub fn keep_events(mut self, keep: Duration) -> Self {
        self.events.keep(keep);
        self
    }

    /// Makes an audit log also when no route is audited, for code that
    /// [adds](crate::audit::AuditLog::add) to it.
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.audit = true;
        self
    }

    /// How long entries of the [audit log](App::audit_log) are kept; for ever by default.
    #[must_use]
    pub fn keep_audit(mut self, keep: Duration) -> Self {
        self.keep_audit = Some(keep);
        self.audit_log()
    }

    /// Registers a search provider under the name that entities call it by:
    /// `search(provider = "name", ..)`.
    #[must_use]
    pub fn search_provider(
        mut self,
        name: impl Into<String>,
        provider: impl SearchProvider,
    ) -> Self {
        self.searches.add(name.into(), Arc::new(provider));
        self
    }
}
