//! Plugins: what extends an app, and what it may touch at each step of start-up.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::Route;
use tower_layer::Layer;
use tower_service::Service;

use crate::http::{ActorResolver, Clock, ContextCall, ContextProviders, Cors, Layers, PluginRoute};
use crate::resource::{Adapters, BoxFuture};
use crate::{ContextValue, Error, Package, Result};

use super::config::Environment;
use super::registrar::Registrar;
use super::secret::SigningSecret;

/// An extension of an app. Every method but the name has an empty default.
///
/// A replacement for authentication resolves the actor in `setup_middleware` and registers what
/// `auth` and `roles` mean in `setup_post`:
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
    /// Unique within an app.
    fn name(&self) -> &str;

    /// Names of plugins and packages that must be there; those plugins are set up first.
    fn dependencies(&self) -> &[&str] {
        &[]
    }

    /// How the environment variables begin that it reads by itself: the app does not take them for
    /// mistakes.
    fn variables(&self) -> &[&str] {
        &[]
    }

    /// The entities it brings; they are mounted and stored as those of the app's packages are.
    fn packages(&self) -> &[&'static Package] {
        &[]
    }

    /// Its routes: described, so that they are reported and documented, under policy as those of
    /// entities are. It is asked before anything is set up; a route does its work with what the
    /// set-up leaves behind.
    fn routes(&self) -> Vec<PluginRoute> {
        Vec::new()
    }

    /// What proves who calls where `auth` has one of the names that it registers, for the API
    /// document. It is asked before anything is set up.
    fn security(&self) -> Vec<crate::openapi::Security> {
        Vec::new()
    }

    /// Installs what runs before routes: layers, the actor resolver, values of the context.
    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Mounts routes of its own.
    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Registers route auth, once adapters exist.
    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let _ = cx;
        Box::pin(async { Ok(()) })
    }

    /// Begins what goes on beside the requests: the app listens now. Commands of the command line
    /// do without.
    fn started(&self) {}

    /// Undoes what it set up, in reverse order of set-up.
    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Commands it adds to the app's command line.
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

/// What a command works with.
pub(super) enum Run {
    /// Its arguments and the signing secrets.
    Alone(RunAlone),
    /// The app's adapters and its arguments.
    Over(RunOver),
}

type RunAlone = Box<dyn FnOnce(&[String], &[SigningSecret]) -> Result<String> + Send>;
type RunOver = Box<dyn FnOnce(Adapters, Vec<String>) -> BoxFuture<'static, Result<String>> + Send>;

impl Command {
    /// Runs with the arguments behind its name and the signing secrets, and starts nothing; what it
    /// returns is printed. `about` is its line of `help`.
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

    /// Runs with the arguments behind its name over an app that is set up and does not listen; what
    /// it returns is printed. Plugins are set up and not [started](Plugin::started).
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

/// What `setup_middleware` may do.
pub struct MiddlewareCx {
    pub(super) secrets: Vec<SigningSecret>,
    pub(super) clock: Clock,
    pub(super) environment: Environment,
    pub(super) resolver: Option<Arc<dyn ActorResolver>>,
    pub(super) adapters: Adapters,
    pub(super) context: ContextProviders,
    pub(super) layers: Layers,
    /// That of the app, then those of plugins.
    pub(super) cors: Vec<Cors>,
}

impl MiddlewareCx {
    /// Installs the resolver that finds the actor of each request.
    ///
    /// # Errors
    /// When another plugin has installed one.
    pub fn set_actor_resolver(&mut self, resolver: Arc<dyn ActorResolver>) -> Result<()> {
        if self.resolver.is_some() {
            return Err(Error::internal(
                "two plugins install an actor resolver; keep one",
            ));
        }
        self.resolver = Some(resolver);
        Ok(())
    }

    /// Provides a value of the request context: what declarations read as `ctx(locale)`, and code
    /// as `cx.context(locale)`.
    ///
    /// It is asked for every request that has passed auth, roles and guards, after the providers
    /// before it. `None` is null: what reads it then answers 401 to anonymous callers and 403 to
    /// others. An error is the answer to the request.
    ///
    /// ```
    /// # use linchpin::{MiddlewareCx, Result};
    /// linchpin::context! {
    ///     /// The language that the caller reads.
    ///     pub locale: String;
    /// }
    ///
    /// fn setup(cx: &mut MiddlewareCx) -> Result<()> {
    ///     cx.provide(locale, |call| {
    ///         let asked = call.parts.headers.get("accept-language").and_then(|value| value.to_str().ok());
    ///         Ok(Some(asked.filter(|text| text.starts_with("de")).map_or("en", |_| "de").to_owned()))
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// When somebody else provides it.
    pub fn provide<V, F>(&mut self, _value: V, provide: F) -> Result<()>
    where
        V: ContextValue,
        F: Fn(ContextCall<'_>) -> Result<Option<V::Value>> + Send + Sync + 'static,
    {
        self.context.add::<V>(provide)
    }

    /// As [`MiddlewareCx::provide`], for what has to be looked up.
    ///
    /// # Errors
    /// When somebody else provides it.
    pub fn provide_later<V, F>(&mut self, _value: V, provide: F) -> Result<()>
    where
        V: ContextValue,
        V::Value: Send,
        F: for<'a> Fn(ContextCall<'a>) -> BoxFuture<'a, Result<Option<V::Value>>>
            + Send
            + Sync
            + 'static,
    {
        self.context.add_later::<V>(provide)
    }

    /// Puts a layer of tower or axum around every request, whatever its route: inside of the layers
    /// of plugins that are set up before, outside of all that is Linchpin's. It sees requests
    /// before anybody knows who calls, and answers as they are sent.
    ///
    /// What a layer answers by itself gets a request id, too. Apps without layers pay nothing for
    /// them.
    ///
    /// ```
    /// # use linchpin::MiddlewareCx;
    /// use linchpin::axum::{extract::Request, middleware::{Next, from_fn}, response::Response};
    ///
    /// async fn frames(request: Request, next: Next) -> Response {
    ///     let mut response = next.run(request).await;
    ///     response.headers_mut().insert("x-frame-options", "DENY".parse().expect("a header value"));
    ///     response
    /// }
    ///
    /// fn setup(cx: &mut MiddlewareCx) {
    ///     cx.layer(from_fn(frames));
    /// }
    /// ```
    pub fn layer<L>(&mut self, layer: L)
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.layers.add(layer);
    }

    /// Lets pages of these exact origins read answers, beside those of `security.cors`; with
    /// `credentials`, their requests may carry cookies. An origin in several lists may do what any
    /// of them says.
    ///
    /// # Errors
    /// When one of them is no origin such as `https://app.example.com`.
    pub fn allow_origins<O: Into<String>>(
        &mut self,
        origins: impl IntoIterator<Item = O>,
        credentials: bool,
    ) -> Result<()> {
        let origins: Vec<String> = origins.into_iter().map(Into::into).collect();
        if let Some(problem) = origins.iter().find_map(|origin| Cors::refuses(origin)) {
            return Err(Error::internal(format!("an allowed origin {problem}")));
        }
        self.cors.push(Cors {
            origins,
            credentials,
        });
        Ok(())
    }

    /// The origins whose pages may read answers, in lists of whoever named them: first
    /// `security.cors`.
    pub fn allowed_origins(&self) -> &[Cors] {
        &self.cors
    }

    /// Typed access to every adapter, for providers to capture.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// The signing secrets, newest first.
    pub fn signing_secrets(&self) -> &[SigningSecret] {
        &self.secrets
    }

    /// Where the app runs: production is stricter.
    pub fn environment(&self) -> Environment {
        self.environment
    }

    /// The application clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl std::fmt::Debug for MiddlewareCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MiddlewareCx")
            .field("resolver", &self.resolver.is_some())
            .finish_non_exhaustive()
    }
}

/// What `setup_routes` may do.
#[derive(Debug, Default)]
pub struct RoutesCx {
    pub(super) adapters: Adapters,
    pub(super) router: axum::Router,
    pub(super) paths: Vec<String>,
    /// What else is known of where its routes are.
    pub(super) areas: Vec<String>,
    /// What could not be mounted; start-up lists all of it.
    pub(super) problems: Vec<String>,
}

impl RoutesCx {
    /// Typed access to every adapter, for handlers to capture. In a handler, `Adapters` and every
    /// entity's adapter are extractors as well.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Mounts a handler at a path in axum's form, such as `/auth/login`. Static segments win over
    /// parameters of entities.
    ///
    /// A malformed path, or one with a method that is taken, is a start-up error.
    pub fn route(&mut self, path: &str, handler: axum::routing::MethodRouter) {
        self.change(path, |router| router.route(path, handler));
        self.paths.push(path.to_owned());
    }

    /// Mounts a router below a path, such as `/files`. Its routes are reached when no entity's
    /// route matches.
    ///
    /// A malformed path, or one that is taken, is a start-up error.
    pub fn nest(&mut self, path: &str, router: axum::Router) {
        self.change(path, |all| all.nest(path, router));
        self.areas
            .push(format!("{}/{{*rest}}", path.trim_end_matches('/')));
    }

    /// Merges a router whose paths are reached when no entity's route matches.
    ///
    /// A route that is mounted already is a start-up error. Guards of the app stand before its
    /// routes as well, but nobody can see at start-up that a pattern matches one of them:
    /// [`RoutesCx::nest`] says where they are.
    pub fn merge(&mut self, router: axum::Router) {
        self.change("a router", |all| all.merge(router));
    }

    /// axum panics on routes it cannot mount; start-up lists them.
    fn change(&mut self, what: &str, change: impl FnOnce(axum::Router) -> axum::Router) {
        let router = std::mem::take(&mut self.router);
        match catch_unwind(AssertUnwindSafe(|| change(router.clone()))) {
            Ok(changed) => self.router = changed,
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                self.problems.push(format!(
                    "{what} cannot be mounted: {}",
                    text.unwrap_or_default()
                ));
                self.router = router;
            }
        }
    }
}

/// What `setup_post` may do.
#[derive(Debug)]
pub struct PostCx {
    pub(super) adapters: Adapters,
    pub(super) registrar: Registrar,
}

impl PostCx {
    /// Typed access to every adapter.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Where names of policies get their meaning.
    pub fn registrar(&mut self) -> &mut Registrar {
        &mut self.registrar
    }
}
