//! Start-up, in the contract's order: everything that can be wrong is found before the port is opened.

use std::sync::Arc;
use std::time::Duration;

use super::capabilities;
use super::checks::{self, startup};
use super::config::{Config, Database};
use super::plugin::{Command, MiddlewareCx, Plugin, PostCx, Registrar, RoutesCx};
use super::running::{Built, Running};
use crate::audit::AuditLog;
use crate::entity::{Entity, EntityDesc};
use crate::event::{Event, EventSink, Hub};
use crate::http::{self, Action, Claims, Clock, Endpoint, HttpState, Override, OverrideCall, RateStore, RouteGuard, idempotency};
use crate::operation::{OpSpec, Operation};
use crate::resource::{Adapters, BoxFuture, CursorKey, Outcome, Table};
use crate::search::{Providers, SearchProvider};
use crate::store::{Store, granted, memory::Memory};
use crate::{Error, Package, Result, Timestamp};

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
    store: Option<Arc<dyn Store>>,
    sweep_every: Duration,
    rates: Option<Arc<dyn RateStore>>,
    hooks: Vec<Hook>,
    /// As written: a pattern that is none is told with everything else that is wrong.
    pub(super) guards: Vec<(String, RouteGuard)>,
    /// Whether there is an audit log also when no route is audited.
    audit: bool,
    keep_audit: Option<Duration>,
    pub(super) own_commands: Vec<OwnCommand>,
    events: Hub,
    searches: Providers,
}

/// An override: whose route, which one, and what runs instead.
pub(super) struct Replacement {
    pub(super) entity: &'static EntityDesc,
    pub(super) name: &'static str,
    /// The methods of a collection, which have routes of their own.
    parts: &'static [&'static OpSpec],
    run: Override,
}

impl Replacement {
    fn new<E, F, Fut>(name: &'static str, parts: &'static [&'static OpSpec], run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        Self { entity: E::DESC, name, parts, run: Arc::new(move |call| Box::pin(run(call))) }
    }

    pub(super) fn is_of(&self, endpoint: &Endpoint) -> bool {
        let of_entity = endpoint.table.as_ref().is_some_and(|t| t.desc.storage_name == self.entity.storage_name);
        let named = endpoint.name == self.name || self.parts.iter().any(|part| part.name == endpoint.name);
        of_entity && named && !matches!(endpoint.action, Action::Extra(_))
    }
}

/// A command of the app, over its adapters.
pub(super) struct OwnCommand {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run: RunOwn,
}

type RunOwn = Box<dyn FnOnce(Adapters, Vec<String>) -> BoxFuture<'static, Result<String>> + Send>;

type Hook = Box<dyn FnOnce(Adapters) -> BoxFuture<'static, Result<()>> + Send>;

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plugins: Vec<&str> = self.plugins.iter().map(|p| p.name()).collect();
        f.debug_struct("App").field("config", &self.config).field("plugins", &plugins).finish_non_exhaustive()
    }
}

/// How often expired records are removed.
const SWEEP: Duration = Duration::from_mins(1);

/// How long the store may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// One of the five generated routes, for overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Route {
    Create,
    List,
    Get,
    Update,
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

    /// The title of the API in its OpenAPI document: the name of the first package unless it is given here.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The version of the API in its OpenAPI document: that of the first package's crate unless it is given here.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// A store of one's own, for tests and experiments, in place of the one that the configuration names.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// What the OpenAPI document says of the API.
    pub(super) fn info(&self) -> crate::openapi::Info {
        let first = self.packages.first().filter(|_| self.own_packages > 0);
        let title = self.title.clone().unwrap_or_else(|| first.map_or("API", |p| p.name).to_owned());
        let version = self.version.clone().unwrap_or_else(|| first.map_or("0.0.0", |p| p.version).to_owned());
        crate::openapi::Info::new(title, version)
    }

    /// Replaces the clock that gives each call its `now`.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Replaces how often expired records are removed from the store: every 60 seconds. Nobody sees them meanwhile.
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

    /// Replaces the executor of an operation's routes; policy, parsing, validation and projection stay. For a collection it
    /// stands for each of its methods, and [`OverrideCall::route`] tells which one is called.
    #[must_use]
    pub fn override_operation<E, F, Fut>(mut self, operation: Operation<E>, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        self.overrides.push(Replacement::new::<E, _, _>(operation.spec().name, operation.spec().parts, run));
        self
    }

    /// Replaces the executor of a generated route of `E`; policy, parsing, validation and projection stay.
    #[must_use]
    pub fn override_route<E, F, Fut>(mut self, route: Route, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        self.overrides.push(Replacement::new::<E, _, _>(route.name(), &[], run));
        self
    }

    /// Puts a guard before every route whose path matches a pattern: those of packages, of plugins and of the app itself, in
    /// addition to their own policy. In a pattern, `{name}` is any one segment, and `{*rest}` at its end all that follow, none
    /// included: `/admin/{*rest}` stands before `/admin` as well. Several guards are asked in the order in which they are added.
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

    /// Runs once adapters exist and before anything is served, so that handlers can capture adapters of other entities.
    #[must_use]
    pub fn after_adapters<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(Adapters) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.hooks.push(Box::new(move |adapters| Box::pin(hook(adapters))));
        self
    }

    /// Adds a command to the app's command line, such as `seed`. It runs over the app's store without listening, with the
    /// arguments behind its name; what it returns is printed.
    #[must_use]
    pub fn command<F, Fut>(mut self, name: &'static str, about: &'static str, run: F) -> Self
    where
        F: FnOnce(Adapters, Vec<String>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        self.own_commands.push(OwnCommand { name, about, run: Box::new(move |adapters, args| Box::pin(run(adapters, args))) });
        self
    }

    /// Adds a consumer of the events of every entity, under a name of its own that it keeps from start to start: what it has
    /// not had when the program ends, it is given after the next start.
    ///
    /// Without a consumer, a subscription or a route that names an `event`, nothing is recorded.
    #[must_use]
    pub fn event_sink(mut self, name: impl Into<String>, sink: impl EventSink) -> Self {
        self.events.sink(name.into(), Arc::new(sink));
        self
    }

    /// Adds a consumer of the events of `E`, one at a time, under a name of its own as for [`App::event_sink`]. An event whose
    /// handling fails is offered again, before any that follows.
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

    /// Makes an audit log also when no route is audited, for code that [adds](crate::audit::AuditLog::add) to it.
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

    /// Registers a search provider under the name that entities call it by: `search(provider = "name", ..)`.
    #[must_use]
    pub fn search_provider(mut self, name: impl Into<String>, provider: impl SearchProvider) -> Self {
        self.searches.add(name.into(), Arc::new(provider));
        self
    }

    /// Starts everything and listens; the app serves until the returned handle is stopped or dropped.
    ///
    /// # Errors
    /// Everything that is wrong with the app, before the port is opened; or the port is taken.
    pub async fn start(self) -> Result<Running> {
        let config = self.config.clone();
        let built = self.build().await?;
        built.listen(&config).await
    }

    /// Serves until SIGINT or SIGTERM, then finishes what it accepted.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn serve(self) -> Result<()> {
        super::command::log(&self.config);
        let running = self.start().await?;
        tracing::info!("listening on http://{}", running.address());
        running.until_signal().await
    }

    /// Steps 1 to 13 of start-up.
    pub(crate) async fn build(self) -> Result<Built> {
        let info = self.info();
        let Self {
            config,
            plugins,
            packages,
            clock,
            overrides,
            sweep_every,
            rates,
            hooks,
            guards,
            audit,
            keep_audit,
            mut events,
            mut searches,
            store: own_store,
            ..
        } = self;
        let (config, secrets) = config.checked()?;
        let plugins = checks::ordered(plugins, &packages)?;
        let entries = || packages.iter().flat_map(|p| p.entities);

        let name = match (&own_store, &config.database) {
            (Some(store), _) => store.name(),
            (None, Database::Memory) => "memory",
            (None, Database::Sqlite(_)) => "sqlite",
            (None, Database::Postgres(_)) => "postgres",
        };
        // Said first: what a store that is not there cannot do is no news.
        if own_store.is_none() {
            compiled(&config.database)?;
        }
        let supports = |capability: &str| own_store.as_ref().map_or_else(|| granted(name, capability), |s| s.supports(capability));
        capabilities::check(entries(), name, supports)?;
        checks::routes(&packages, &overrides)?;
        let guards = checks::patterns(&guards)?;
        let audited = checks::audited(&packages, &plugins)? || audit;

        let store: Arc<dyn Store> = own_store.map_or_else(|| connect(&config), Ok)?;
        let mut teardown = Built::new(Arc::clone(&store), config.grace);
        let done: Result<http::HttpService> = async {
            let mut descs: Vec<&'static EntityDesc> = entries().map(|e| e.desc).collect();
            let repeats = entries().any(idempotency::wanted);
            descs.extend(repeats.then(Claims::entity));
            descs.extend(audited.then(AuditLog::entity));
            store.install(&descs).await?;
            let claims = repeats.then(|| Claims::new(&store)).transpose()?.map(Arc::new);
            let keys: Vec<&[u8]> = secrets.iter().map(super::SigningSecret::expose).collect();
            let cursors = CursorKey::derive(&keys);
            let mut tables = Vec::new();
            for entry in entries() {
                let table = Arc::new(Table::new(entry.desc, Arc::clone(&store), cursors.clone())?.bounded(entry));
                tables.push(table);
            }
            let audit = audited.then(|| AuditLog::new(&store, cursors.clone(), keep_audit)).transpose()?;
            let adapters = Adapters::new(tables.iter().cloned()).with_events(events.bus.clone());
            if let Some(log) = &audit {
                adapters.provide(log.clone());
            }
            // Planning now turns a statement the store refuses into a start-up error.
            for entry in entries() {
                if let Some(table) = adapters.table(entry.desc.storage_name) {
                    for spec in entry.mounted() {
                        table.executor(spec)?;
                    }
                }
            }
            let entries: Vec<_> = entries().collect();
            // Twice: what hooks and plugins write is recorded for those who listen already, and they may listen themselves.
            events.activate(&entries, &tables, &store).await?;
            for package in &packages {
                if let Some(hook) = package.after_adapters {
                    let failed = |e| startup(format!("after_adapters of package `{}` failed: {}", package.name, checks::chain(&e)));
                    hook(adapters.clone()).await.map_err(failed)?;
                }
            }
            for hook in hooks {
                hook(adapters.clone()).await.map_err(|e| startup(format!("an after_adapters hook failed: {}", checks::chain(&e))))?;
            }

            let mut middleware =
                MiddlewareCx { secrets: secrets.clone(), clock: Arc::clone(&clock), environment: config.environment, resolver: None };
            let mut routes = RoutesCx { adapters: adapters.clone(), ..RoutesCx::default() };
            let mut post = PostCx { adapters: adapters.clone(), registrar: Registrar::default() };
            for plugin in plugins {
                let plugin = teardown.add(plugin);
                plugin.setup_middleware(&mut middleware).await.map_err(|e| failed(plugin, "setup_middleware", &e))?;
            }
            for plugin in teardown.plugins() {
                plugin.setup_routes(&mut routes).await.map_err(|e| failed(plugin, "setup_routes", &e))?;
            }
            let mut endpoints = mounted(&packages, &adapters);
            endpoints.extend(http::plugin_endpoints(teardown.plugins().flat_map(Plugin::routes).collect()));
            apply(&overrides, &mut endpoints);
            http::guard(&guards, &mut endpoints);
            for plugin in teardown.plugins() {
                plugin.setup_post(&mut post).await.map_err(|e| failed(plugin, "setup_post", &e))?;
            }
            events.adopt(std::mem::take(&mut post.registrar.consumers));
            searches.extend(std::mem::take(&mut post.registrar.searches));
            let feeds = teardown.searches.open(searches, &entries, &tables, &store, &clock).await?;
            events.adopt(feeds);
            events.activate(&entries, &tables, &store).await?;
            let registry = std::mem::take(&mut post.registrar.registry);
            let auth = checks::known_names(post.registrar.auth.take(), &registry, &endpoints, &guards)?;
            if let Some(evaluator) = &registry.evaluator {
                for table in &tables {
                    table.judged_by(evaluator);
                }
            }
            own_routes(&mut routes, &config, &info, &endpoints, &store);
            routes.problems.extend(checks::shadowed(&routes.paths, &endpoints));
            routes.problems.extend(checks::idle(&guards, &endpoints, &routes));
            if !routes.problems.is_empty() {
                return Err(startup(routes.problems.join("\n")));
            }

            // From here on nothing fails any more. Every change is told to the indexes by now: what is read is not missed.
            teardown.indexing = teardown.searches.make().await;
            teardown.adapters = adapters.clone();
            teardown.endpoints.clone_from(&endpoints);
            let mut state = HttpState::new(adapters);
            state.resolver = middleware.resolver;
            state.auth = auth;
            state.registry = registry;
            state.guards = guards;
            if let Some(rates) = rates {
                state.rates = rates;
            }
            teardown.sweep = Some((Arc::clone(&clock), sweep_every));
            teardown.events = events;
            state.clock = clock;
            state.bodies = config.bodies;
            teardown.claims.clone_from(&claims);
            state.claims = claims;
            teardown.audit.clone_from(&audit);
            state.audit = audit;
            state.cors = Some(config.cors.clone()).filter(|cors| !cors.origins.is_empty());
            state.extra = routes.router;
            state.extra_paths = routes.paths;
            http::service(endpoints, state)
        }
        .await;
        match done {
            Ok(service) => {
                teardown.service = Some(service);
                Ok(teardown)
            }
            Err(error) => {
                teardown.undo().await;
                Err(error)
            }
        }
    }

    /// The commands of all plugins.
    pub(super) fn commands(&self) -> Vec<Command> {
        self.plugins.iter().flat_map(|p| p.commands()).collect()
    }
}

/// Everything the packages mount.
pub(super) fn mounted(packages: &[&'static Package], adapters: &Adapters) -> Vec<Endpoint> {
    packages.iter().flat_map(|p| http::endpoints(p, p.mount, adapters)).collect()
}

fn failed(plugin: &dyn Plugin, step: &str, error: &Error) -> Error {
    startup(format!("plugin `{}` failed in {step}: {}", plugin.name(), checks::chain(error)))
}

/// Refuses a database whose store is not in this build.
fn compiled(database: &Database) -> Result<()> {
    let missing = match database {
        Database::Sqlite(_) if !cfg!(feature = "sqlite") => "this build has no `sqlite` feature; enable it or use memory:",
        Database::Postgres(_) if !cfg!(feature = "postgres") => "this build has no `postgres` feature; enable it in Cargo.toml",
        _ => return Ok(()),
    };
    Err(startup(missing))
}

fn connect(config: &Config) -> Result<Arc<dyn Store>> {
    match &config.database {
        Database::Memory => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "sqlite")]
        Database::Sqlite(file) => super::listen::sqlite(file, config.durability),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => super::listen::postgres(url.expose(), config),
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        other => compiled(other).and_then(|()| Err(startup("the database has no store"))),
    }
}

/// Puts each override in its place.
pub(super) fn apply(overrides: &[Replacement], endpoints: &mut [Endpoint]) {
    for replacement in overrides {
        for endpoint in endpoints.iter_mut().filter(|e| replacement.is_of(e)) {
            endpoint.run = Some(Arc::clone(&replacement.run));
        }
    }
}

/// `/health/live`, `/health/ready`, `/openapi.json` and `/docs`.
fn own_routes(routes: &mut RoutesCx, config: &Config, info: &crate::openapi::Info, endpoints: &[Endpoint], store: &Arc<dyn Store>) {
    use axum::routing::get;
    routes.route("/health/live", get(|| async { "ok" }));
    let store = Arc::clone(store);
    let ready = move || {
        let store = Arc::clone(&store);
        async move { ready(&*store).await.map(|()| "ok") }
    };
    routes.route("/health/ready", get(ready));
    if config.openapi {
        routes.merge(crate::openapi::openapi_router(crate::openapi::document(info, endpoints)));
        routes.areas.push(crate::openapi::PATHS[0].to_owned());
    }
    if config.openapi && config.docs_on() {
        routes.merge(crate::openapi::docs_router());
        routes.areas.extend(crate::openapi::PATHS.map(str::to_owned));
    }
}

/// Whether the store answers in time.
async fn ready(store: &dyn Store) -> Result<()> {
    match tokio::time::timeout(PATIENCE, store.ready()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::unavailable(checks::chain(&error))),
        Err(_) => Err(Error::unavailable("the store did not say in time whether it is ready")),
    }
}
