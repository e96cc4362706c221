//! The builder of an app; [`super::start`] turns it into a server.

use std::sync::Arc;
use std::time::Duration;

use super::config::Config;
use super::overrides::{Route, RouteOverride};
use super::plugin::{Command, Plugin};
use crate::entity::Entity;
use crate::event::{Event, EventSink, Hub};
use crate::http::{Clock, OverrideCall, RateStore, RouteGuard};
use crate::indexing::Providers;
use crate::operation::Operation;
use crate::resource::{Adapters, BoxFuture, Outcome};
use crate::search::SearchProvider;
use crate::store::{Store, StoreProvider};
use crate::{Package, Result, Timestamp};
use linchpin_core::schema::Chain;

/// An application: a configuration, plugins and packages.
///
/// An app is the value that `main` builds and runs. It has three inputs:
///
/// - a [`Config`]: the address, the database, the secrets;
/// - [packages](App::package): the entities, operations and routes of your program;
/// - [plugins](App::plugin): features that packages share, such as authentication.
///
/// ```no_run
/// use linchpin::prelude::*;
///
/// /// Something to do.
/// #[entity(routes(auth = "userAuth"))]
/// #[derive(Clone, Debug)]
/// pub struct Task {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     pub title: String,
/// }
///
/// static TASKS: Package = package!(name = "tasks", entities = [entity(Task)]);
///
/// #[tokio::main]
/// async fn main() -> linchpin::Result<()> {
///     App::new(Config::from_env()?)
///         .plugin(JwtAuth::new())
///         .package(&TASKS)
///         .run()
///         .await
/// }
/// ```
///
/// # Run it
///
/// [`run`](App::run) reads the command line: without arguments the app serves, `routes` prints its
/// routes, `openapi` its API document, and `help` lists all commands. [`serve`](App::serve) serves
/// without a command line. [`start`](App::start) returns a handle instead, which tests use:
///
/// ```
/// # use linchpin::prelude::*;
/// # #[entity(routes(auth = none))]
/// # #[derive(Clone, Debug)]
/// # pub struct Task { #[field(primary, default = uuid)] pub id: String, pub title: String }
/// # static TASKS: Package = package!(name = "tasks", entities = [entity(Task)]);
/// # #[tokio::main]
/// # async fn main() -> linchpin::Result<()> {
/// let config = Config::new().database("memory:").port(0);
/// let app = App::new(config).package(&TASKS).start().await?;
/// println!("http://{}/tasks", app.address());
///
/// // Code calls the same operations as HTTP routes, without HTTP.
/// let tasks = app.adapter::<Task>()?;
/// let task = tasks.create(&Cx::system("example"), TaskCreate { title: "Read".into() }).await?;
/// assert_eq!(task.title, "Read");
/// app.stop().await
/// # }
/// ```
///
/// # Start-up
///
/// A mistake in the app stops the start; no mistake stays hidden until the first request. Start-up
/// first checks names, dependencies, routes and the capabilities of the store. Then it opens the
/// store, and checks that this binary may serve the database: in production its migrations must
/// have been applied, and in development it creates the tables of an empty database. It builds the
/// adapters, runs the [hooks](App::after_adapters) and sets up the plugins. Last, it checks the
/// names in route policies, and opens the port. Each of these checks reports all of its mistakes
/// together.
///
/// # Extend it
///
/// | to | use |
/// |---|---|
/// | replace the code of a generated route | [`override_route`](App::override_route), [`override_operation`](App::override_operation) |
/// | protect all routes below a path | [`guard`](App::guard) |
/// | react to changes of records | [`on_event`](App::on_event), [`event_sink`](App::event_sink) |
/// | run code before the first request | [`after_adapters`](App::after_adapters) |
/// | add a command to the command line | [`command`](App::command) |
/// | share rate limits between processes | [`rate_store`](App::rate_store) |
/// | use another database or search engine | [`store_provider`](App::store_provider), [`search_provider`](App::search_provider) |
pub struct App {
    pub(super) config: Config,
    pub(super) plugins: Vec<Box<dyn Plugin>>,
    /// The packages of the app first, then the packages of plugins.
    pub(super) packages: Vec<&'static Package>,
    /// The number of packages that the app itself added.
    own_packages: usize,
    pub(super) clock: Clock,
    pub(super) overrides: Vec<RouteOverride>,
    pub(super) title: Option<String>,
    pub(super) version: Option<String>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) providers: Vec<Box<dyn StoreProvider>>,
    pub(super) sweep_every: Duration,
    pub(super) rates: Option<Arc<dyn RateStore>>,
    pub(super) hooks: Vec<Hook>,
    /// Patterns and their guards. Start-up parses the patterns, and reports a malformed one with
    /// all other mistakes.
    pub(super) guards: Vec<(String, RouteGuard)>,
    /// Whether the audit log exists even if no route is audited.
    pub(super) audit: bool,
    pub(super) keep_audit: Option<Duration>,
    pub(super) own_commands: Vec<Command>,
    pub(super) events: Hub,
    pub(super) searches: Providers,
    /// The recorded migrations.
    pub(super) migrations: Chain,
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

/// The default interval between two removals of expired records.
const SWEEP: Duration = Duration::from_mins(1);

impl App {
    /// Creates an app without plugins and packages.
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
            migrations: Chain::EMPTY,
        }
    }

    /// Adds a plugin, such as `linchpin_auth::Auth`. The app also mounts the packages of the plugin.
    /// Plugins are set up in the order of their dependencies, and otherwise in the order of these
    /// calls. Two plugins with the same name are a start-up error.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.packages.extend_from_slice(plugin.packages());
        self.config.leave(plugin.variables());
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Adds a package: its entities get tables, and its routes are mounted. Two packages with the
    /// same name, or two routes with the same path, are a start-up error.
    #[must_use]
    pub fn package(mut self, package: &'static Package) -> Self {
        self.packages.insert(self.own_packages, package);
        self.own_packages += 1;
        self
    }

    /// Sets the title of the API in its OpenAPI document. The default is the name of the first
    /// package.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the version of the API in its OpenAPI document. The default is the crate version of the
    /// first package.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds a store of another crate. The app opens it for database URLs that use one of its
    /// schemes. The stores of this build need no registration. Two stores with the same name or the
    /// same scheme are a start-up error.
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

    /// Uses this store instead of the one in the configuration. For tests, and for stores that no
    /// URL can describe.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the recorded migrations: `linchpin::migrations!("migrations")`.
    ///
    /// The commands `migrate ..` and start-up compare the database with them. An app without this
    /// call reads the folder `migrations` at the time of the command or of the start.
    #[must_use]
    pub fn migrations(mut self, chain: Chain) -> Self {
        self.migrations = chain;
        self
    }

    /// The title, version and webhooks for the OpenAPI document.
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
        let plugins = self.plugins.iter();
        crate::openapi::Info {
            webhooks: plugins.flat_map(|plugin| plugin.webhooks()).collect(),
            ..crate::openapi::Info::new(title, version)
        }
    }

    /// The authentication schemes for the OpenAPI document.
    pub(super) fn security(&self) -> Vec<crate::openapi::Security> {
        self.plugins
            .iter()
            .flat_map(|plugin| plugin.security())
            .collect()
    }

    /// Replaces the clock that sets the instant of each call: over HTTP, and from code with
    /// [`Cx::system`](crate::Cx::system) and [`Cx::actor`](crate::Cx::actor).
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the interval at which the app removes expired records from the store; 60 seconds by
    /// default. Expired records are invisible even before they are removed.
    #[must_use]
    pub fn sweep_every(mut self, period: Duration) -> Self {
        self.sweep_every = period;
        self
    }

    /// Replaces the store of the `rate_limit` counters; by default they are in this process.
    #[must_use]
    pub fn rate_store(mut self, store: impl RateStore) -> Self {
        self.rates = Some(Arc::new(store));
        self
    }

    /// Replaces the executor of an operation's routes; policy, parsing, validation and projection
    /// stay. For a collection it replaces the executor of each method, and [`OverrideCall::route`]
    /// contains the name of the called method.
    #[must_use]
    pub fn override_operation<E, F, Fut>(mut self, operation: Operation<E>, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        self.overrides
            .push(RouteOverride::operation(operation, run));
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
            .push(RouteOverride::route::<E, _, _>(route, run));
        self
    }

    /// Adds a guard to every route whose path matches a pattern: routes of packages, of plugins and
    /// of the app itself. The routes' own policies still apply. In a pattern, `{name}` matches any
    /// one segment. `{*rest}` at the end matches zero or more segments, so `/admin/{*rest}` also
    /// guards `/admin`. Several guards run in the order in which they were added.
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

    /// Runs a hook after the adapters exist and before the app serves requests, so that handlers
    /// can capture adapters of other entities.
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

    /// Adds a command to the app's command line, such as `seed`. The command runs on the app's
    /// store with the arguments that follow its name; the app does not listen. The result of the
    /// command is printed. Plugins add commands with [`Plugin::commands`].
    #[must_use]
    pub fn command<F, Fut>(mut self, name: &'static str, about: &'static str, run: F) -> Self
    where
        F: FnOnce(Adapters, Vec<String>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        self.own_commands.push(Command::over(name, about, run));
        self
    }

    /// Adds a consumer of the events of every entity. Its name is unique and must stay the same
    /// between starts: events that were not delivered before the program ended are delivered after
    /// the next start.
    ///
    /// Without a consumer, a subscription or a route with an `event` in its policy, no event is
    /// recorded.
    #[must_use]
    pub fn event_sink(mut self, name: impl Into<String>, sink: impl EventSink) -> Self {
        self.events.sink(name.into(), Arc::new(sink));
        self
    }

    /// Adds a consumer of the events of `E`, which gets one event at a time. Its name follows the
    /// rules of [`App::event_sink`]. If the handler fails, the same event is delivered again before
    /// any later event of its record; after 20 failures it is parked (see [`EventSink`]).
    /// [`Event::adapter`] gives access to the records of the app.
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

    /// Sets how long the store keeps delivered events; 1 hour by default.
    #[must_use]
    pub fn keep_events(mut self, keep: Duration) -> Self {
        self.events.keep(keep);
        self
    }

    /// Creates an audit log even if no route is audited, for code that
    /// [adds](crate::audit::AuditLog::add) entries to it.
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.audit = true;
        self
    }

    /// Sets how long entries of the [audit log](App::audit_log) are kept; forever by default.
    #[must_use]
    pub fn keep_audit(mut self, keep: Duration) -> Self {
        self.keep_audit = Some(keep);
        self.audit_log()
    }

    /// Registers a search provider under the name that entities use for it:
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
