//! Plugins: extensions of an app.

use std::time::Duration;

use crate::http::PluginRoute;
use crate::resource::{Adapters, BoxFuture};
use crate::{Package, Result};

use super::overrides::RouteOverride;
use super::secret::SigningSecret;
use super::setup::{MiddlewareCx, PostCx, RoutesCx};

/// An extension of an app: a feature that any app can add with [`App::plugin`](crate::App::plugin).
///
/// A plugin can bring entities, routes, middleware, authentication, context values and commands.
/// Only [`name`](Plugin::name) is required; every other method has an empty default.
///
/// # When each method runs
///
/// 1. Before any set-up, the app reads the description of the plugin:
///    [`dependencies`](Plugin::dependencies), [`variables`](Plugin::variables),
///    [`packages`](Plugin::packages), [`routes`](Plugin::routes),
///    [`overrides`](Plugin::overrides), [`security`](Plugin::security), [`webhooks`](Plugin::webhooks)
///    and [`commands`](Plugin::commands). The store is not open yet.
/// 2. The app opens the store and builds the adapters. Then it calls
///    [`setup_middleware`](Plugin::setup_middleware) of every plugin, then
///    [`setup_routes`](Plugin::setup_routes) of every plugin, then
///    [`setup_post`](Plugin::setup_post) of every plugin. Required plugins come first.
/// 3. After the port is open: [`started`](Plugin::started).
/// 4. When the app stops, before any connection is cut: [`stopping`](Plugin::stopping) of every
///    plugin, at the same time.
/// 5. After the accepted requests: [`teardown`](Plugin::teardown), in reverse order.
///
/// An error of a set-up method stops the start; the app then tears down the plugins that it has set
/// up.
///
/// # Example
///
/// This plugin replaces authentication. It finds the actor of each request in `setup_middleware`,
/// and registers the checks for `auth` and `roles` in `setup_post`:
///
/// ```
/// use std::sync::Arc;
/// use linchpin::http::{ActorResolver, Origin, Resolution, RouteAuth};
/// use linchpin::{Actor, BoxFuture, MiddlewareCx, Plugin, PostCx, Result};
///
/// struct HeaderAuth;
///
/// impl ActorResolver for HeaderAuth {
///     fn resolve(&self, parts: &axum::http::request::Parts, _: Origin<'_>) -> Resolution {
///         let actor = match parts.headers.get("x-user").and_then(|v| v.to_str().ok()) {
///             Some(name) => Actor::user(name),
///             None => Actor::anonymous(),
///         };
///         Resolution::Ready(Ok(Arc::new(actor)))
///     }
/// }
///
/// impl Plugin for HeaderAuth {
///     fn name(&self) -> &str {
///         "header-auth"
///     }
///     fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
///         Box::pin(async { cx.set_actor_resolver(Arc::new(HeaderAuth)) })
///     }
///     fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
///         Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
///     }
/// }
/// ```
pub trait Plugin: Send + Sync + 'static {
    /// The name, unique within an app. Other plugins use it in [`dependencies`](Plugin::dependencies).
    fn name(&self) -> &str;

    /// Names of the plugins and packages that this plugin requires. Required plugins are set up
    /// first.
    fn dependencies(&self) -> &[&str] {
        &[]
    }

    /// Prefixes of the environment variables that the plugin reads itself. The app does not report
    /// variables with these prefixes as unknown.
    fn variables(&self) -> &[&str] {
        &[]
    }

    /// The entities of the plugin; the app mounts and stores them like the entities of its own
    /// packages.
    fn packages(&self) -> &[&'static Package] {
        &[]
    }

    /// The routes of the plugin. They have a description for reports and documentation, and
    /// policies like the routes of entities. The app calls this method before any set-up; handlers
    /// use the values that the set-up methods create later.
    fn routes(&self) -> Vec<PluginRoute> {
        Vec::new()
    }

    /// Replaces the executors of routes of the plugin's own entities, such as a `create` that
    /// returns a secret once. The app calls this method before any set-up; functions use the values
    /// that the set-up methods create later.
    fn overrides(&self) -> Vec<RouteOverride> {
        Vec::new()
    }

    /// The security schemes for the `auth` names that this plugin registers, for the OpenAPI
    /// document. The app calls this method before any set-up.
    fn security(&self) -> Vec<crate::openapi::Security> {
        Vec::new()
    }

    /// The requests that the plugin sends to addresses of customers, for the OpenAPI document. The
    /// app calls this method before any set-up.
    fn webhooks(&self) -> Vec<crate::openapi::Webhook> {
        Vec::new()
    }

    /// Installs layers, the actor resolver and providers of context values. They run before routes.
    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Mounts the plugin's own routes.
    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Registers the checks for the names in route policies (`auth`, `roles`, `guards`,
    /// `middleware`) and the evaluator of permissions.
    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Starts background work. The app listens when it calls this method. Commands of the command
    /// line do not call it.
    fn started(&self) {}

    /// Ends streams and sockets, which would keep connections open. The app calls this method first
    /// when it stops: the port is closed and new requests are refused, but open responses and
    /// sockets still work. After `grace` they are cut, and the returned future is dropped.
    fn stopping(&self, grace: Duration) -> BoxFuture<'_, ()> {
        let _ = grace;
        Box::pin(async {})
    }

    /// Undoes the set-up. Plugins are torn down in reverse order of set-up.
    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Commands that the plugin adds to the app's command line.
    fn commands(&self) -> Vec<Command> {
        Vec::new()
    }
}

/// A command of the app's command line, such as `token`.
pub struct Command {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) run: Run,
}

/// The function of a command, by the arguments it gets.
pub(super) enum Run {
    /// It gets the command's arguments and the signing secrets.
    Alone(RunAlone),
    /// It gets the app's adapters and the command's arguments.
    Over(RunOver),
}

type RunAlone = Box<dyn FnOnce(&[String], &[SigningSecret]) -> Result<String> + Send>;
type RunOver = Box<dyn FnOnce(Adapters, Vec<String>) -> BoxFuture<'static, Result<String>> + Send>;

impl Command {
    /// Creates a command that starts no app. It gets the arguments that follow its name and the
    /// signing secrets; its result is printed. `about` is its line in `help`.
    pub fn alone(
        name: &'static str,
        about: &'static str,
        run: impl FnOnce(&[String], &[SigningSecret]) -> Result<String> + Send + 'static,
    ) -> Self {
        Self {
            name,
            about,
            run: Run::Alone(Box::new(run)),
        }
    }

    /// Creates a command that runs on an app that is set up but does not listen. It gets the
    /// arguments that follow its name; its result is printed. Plugins are set up but not
    /// [started](Plugin::started).
    pub fn over<F, Fut>(name: &'static str, about: &'static str, run: F) -> Self
    where
        F: FnOnce(Adapters, Vec<String>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        Self {
            name,
            about,
            run: Run::Over(Box::new(move |adapters, args| {
                Box::pin(run(adapters, args))
            })),
        }
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
