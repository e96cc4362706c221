//! The contexts that plugins get at each step of start-up.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::Route;
use tower_layer::Layer;
use tower_service::Service;

use crate::entity::{Field, FieldType};
use crate::http::{
    ActorResolver, Clock, ContextCall, ContextProviders, Cors, Credentials, Layers, RateStore,
    RouteCaller, SessionWatch, SessionWatches,
};
use crate::resource::{Adapters, BoxFuture};
use crate::seal::{DataKeys, Key, SealedField};
use crate::{ContextValue, EntityEntry, Error, Result};

use super::config::Environment;
use super::data_keys;
use super::registrar::Registrar;
use super::secret::SigningSecret;

/// The context of `setup_middleware`.
pub struct MiddlewareCx {
    pub(super) secrets: Vec<SigningSecret>,
    /// The keys of stored data: first the app's, then those of plugins.
    pub(super) data_keys: Vec<(String, Key)>,
    pub(super) clock: Clock,
    pub(super) environment: Environment,
    pub(super) resolver: Option<Arc<dyn ActorResolver>>,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
    pub(super) adapters: Adapters,
    pub(super) context: ContextProviders,
    pub(super) layers: Layers,
    /// The lists of allowed origins: first the app's, then those of plugins.
    pub(super) cors: Vec<Cors>,
}

impl MiddlewareCx {
    /// Installs the resolver that finds the actor of each request.
    ///
    /// # Errors
    /// If another plugin has installed one.
    pub fn set_actor_resolver(&mut self, resolver: Arc<dyn ActorResolver>) -> Result<()> {
        if self.resolver.is_some() {
            return Err(Error::internal(
                "two plugins install an actor resolver; keep one",
            ));
        }
        self.resolver = Some(resolver);
        Ok(())
    }

    /// Installs the check of credentials for connections that live longer than a request, such as
    /// sockets. The plugin that installs the resolver also installs this one.
    ///
    /// # Errors
    /// If another plugin has installed one.
    pub fn set_credentials(&mut self, credentials: Arc<dyn Credentials>) -> Result<()> {
        if self.credentials.is_some() {
            return Err(Error::internal(
                "two plugins install a check of credentials; keep one",
            ));
        }
        self.credentials = Some(credentials);
        Ok(())
    }

    /// Provides a value of the request context: declarations read it as `ctx(locale)`, and code as
    /// `cx.context(locale)`.
    ///
    /// The provider runs for every request that has passed auth, roles and guards, after the
    /// providers that were added before it. `None` is null: a route whose declaration reads it then
    /// responds with 401 to anonymous callers and with 403 to others. An error of the provider
    /// becomes the response to the request.
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
    /// If another plugin provides this value.
    pub fn provide<V, F>(&mut self, _value: V, provide: F) -> Result<()>
    where
        V: ContextValue,
        F: Fn(ContextCall<'_>) -> Result<Option<V::Value>> + Send + Sync + 'static,
    {
        self.context.add::<V>(provide)
    }

    /// Like [`MiddlewareCx::provide`], for values that need an asynchronous lookup.
    ///
    /// # Errors
    /// If another plugin provides this value.
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

    /// Adds a layer of tower or axum around every request, whatever its route. It is inside the
    /// layers of plugins that are set up earlier, and outside all layers of Linchpin. It sees
    /// requests before authentication, and responses as they are sent.
    ///
    /// Responses that a layer creates itself get a request id, too. An app without layers has no
    /// overhead.
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

    /// Allows pages of these exact origins to read responses, in addition to the origins of
    /// `security.cors`. With `credentials`, their requests may carry cookies. An origin in several
    /// lists has the permissions of all of them.
    ///
    /// # Errors
    /// If one of them is not an origin such as `https://app.example.com`.
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

    /// The origins whose pages may read responses, one list per source; `security.cors` is the
    /// first.
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

    /// Adds keys for stored data, newest first, after those of the app and of plugins that are set
    /// up earlier. If there are earlier keys, the added keys only decrypt. A key that is already
    /// there is skipped.
    ///
    /// ```
    /// use linchpin::seal::Key;
    /// # use linchpin::{MiddlewareCx, Result};
    ///
    /// fn setup(cx: &mut MiddlewareCx, key: Key) -> Result<()> {
    ///     cx.add_data_keys([("vault-1".to_owned(), key)])
    /// }
    /// ```
    ///
    /// # Errors
    /// If another key has the same id.
    pub fn add_data_keys(&mut self, keys: impl IntoIterator<Item = (String, Key)>) -> Result<()> {
        data_keys::add(&mut self.data_keys, keys)
    }

    /// The environment of the app; production is stricter.
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

/// The context of `setup_routes`.
#[derive(Debug, Default)]
pub struct RoutesCx {
    pub(super) adapters: Adapters,
    pub(super) data_keys: Option<Arc<DataKeys>>,
    pub(super) router: axum::Router,
    pub(super) paths: Vec<String>,
    /// Path patterns of nested routers and of the framework's own routes.
    pub(super) areas: Vec<String>,
    /// Routes that could not be mounted; start-up reports all of them.
    pub(super) problems: Vec<String>,
}

impl RoutesCx {
    /// Typed access to every adapter, for handlers to capture. Handlers can also take `Adapters`
    /// and every entity's adapter as extractors.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// The keys that encrypt stored secrets: those of the app, then those of plugins. `None` if the
    /// app has none.
    ///
    /// ```
    /// use linchpin::seal::Place;
    /// # use linchpin::{Result, RoutesCx};
    ///
    /// fn setup(cx: &RoutesCx) -> Result<()> {
    ///     if let Some(keys) = cx.data_keys() {
    ///         let place = Place { entity: "endpoints", id: "e1", field: "secret" };
    ///         let stored = keys.seal(place, b"hunter2")?;
    /// #       drop(stored);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        self.data_keys.as_ref()
    }

    /// The keys of [`RoutesCx::data_keys`], for a plugin that cannot work without them.
    ///
    /// # Errors
    /// If the app has none; the message says how to set one.
    pub fn require_data_keys(&self) -> Result<&Arc<DataKeys>> {
        self.data_keys().ok_or_else(data_keys::missing)
    }

    /// Mounts a handler at a path in axum's form, such as `/auth/login`. Static segments take
    /// precedence over path parameters of entities.
    ///
    /// A malformed path, or a path with a method that is already taken, is a start-up error.
    pub fn route(&mut self, path: &str, handler: axum::routing::MethodRouter) {
        self.change(path, |router| router.route(path, handler));
        self.paths.push(path.to_owned());
    }

    /// Mounts a router below a path, such as `/files`. Its routes are used if no entity's route
    /// matches.
    ///
    /// A malformed path, or a path that is already taken, is a start-up error.
    pub fn nest(&mut self, path: &str, router: axum::Router) {
        self.change(path, |all| all.nest(path, router));
        self.areas
            .push(format!("{}/{{*rest}}", path.trim_end_matches('/')));
    }

    /// Merges a router whose routes are used if no entity's route matches.
    ///
    /// A route that is already mounted is a start-up error. Guards of the app also run before the
    /// routes of the router. But start-up does not know these routes: a guard whose pattern matches
    /// no other route is refused as unused. Use [`RoutesCx::nest`] for such routes.
    pub fn merge(&mut self, router: axum::Router) {
        self.change("a router", |all| all.merge(router));
    }

    /// axum panics on routes that it cannot mount; start-up reports them.
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

/// The context of `setup_post`.
pub struct PostCx {
    pub(super) adapters: Adapters,
    pub(super) registrar: Registrar,
    pub(super) data_keys: Option<Arc<DataKeys>>,
    pub(super) clock: Clock,
    pub(super) environment: Environment,
    pub(super) listens_on: Arc<OnceLock<SocketAddr>>,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
    /// The lists of allowed origins: first the app's, then those of plugins.
    pub(super) cors: Vec<Cors>,
    pub(super) caller: RouteCaller,
    pub(super) rates: Arc<dyn RateStore>,
    pub(super) entities: Vec<&'static EntityEntry>,
    pub(super) routes: Vec<MountedRoute>,
}

/// A route of the app, for checks at start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedRoute {
    /// `GET` and so on; `ANY` for a handler that a plugin mounts for several methods.
    pub method: &'static str,
    /// The path in axum's form.
    pub path: String,
    /// The plugin that describes the route; `None` for routes of entities and of packages.
    pub plugin: Option<&'static str>,
}

impl PostCx {
    /// Typed access to every adapter.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// The application clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The environment of the app; production is stricter.
    pub fn environment(&self) -> Environment {
        self.environment
    }

    /// The address on which the app listens; it has a value as soon as the port is open. A plugin
    /// that sends requests to addresses from users must refuse this address.
    pub fn listens_on(&self) -> &Arc<OnceLock<SocketAddr>> {
        &self.listens_on
    }

    /// The keys that encrypt stored secrets; see [`RoutesCx::data_keys`].
    pub fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        self.data_keys.as_ref()
    }

    /// The keys of [`PostCx::data_keys`], for a plugin that cannot work without them.
    ///
    /// # Errors
    /// If the app has none; the message says how to set one.
    pub fn require_data_keys(&self) -> Result<&Arc<DataKeys>> {
        self.data_keys().ok_or_else(data_keys::missing)
    }

    /// Registers a text field with one encrypted value per record, bound to
    /// [`Place::of`](crate::seal::Place::of) the field and the record. The command `rekey` encrypts
    /// the values with the newest key, in batches of 100 records, deleted records included. If a
    /// value changes during the command, the new value stays.
    ///
    /// If the entity has an index that begins with the field, start-up also fails while a value
    /// needs a key that is not configured. `linchpin-auth` checks fields without an index too.
    ///
    /// ```
    /// use linchpin::prelude::*;
    /// # use linchpin::PostCx;
    ///
    /// /// A receiver of webhooks.
    /// #[entity(routes(disabled), index(secret))]
    /// pub struct Endpoint {
    ///     #[field(primary, default = uuid)]
    ///     pub id: String,
    ///     /// Encrypted.
    ///     pub secret: String,
    /// }
    ///
    /// fn setup(cx: &mut PostCx) -> Result<()> {
    ///     cx.sealed_field(endpoint::secret)
    /// }
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// If the app has no data keys, or if no package of the app lists the entity.
    pub fn sealed_field<F: Field>(&mut self, field: F) -> Result<()>
    where
        F::Ty: FieldType<Inner = String>,
    {
        let keys = self.require_data_keys()?;
        let field = SealedField::new(field, &self.adapters, keys)?;
        self.registrar.reseal(field);
        Ok(())
    }

    /// The check of credentials for connections that live longer than a request; `None` if no
    /// plugin has installed one.
    pub fn credentials(&self) -> Option<&Arc<dyn Credentials>> {
        self.credentials.as_ref()
    }

    /// Calls routes of entities from within the process, on behalf of an actor. It works once the
    /// app has started.
    pub fn route_caller(&self) -> &RouteCaller {
        &self.caller
    }

    /// The counters of rate limits, for the plugin's own limits. They are in the store of
    /// [`App::rate_store`](crate::App::rate_store), or in the memory of this process.
    pub fn rate_store(&self) -> &Arc<dyn RateStore> {
        &self.rates
    }

    /// The origins whose pages may read responses: `security.cors` first, then one list for each
    /// plugin that adds some.
    pub fn allowed_origins(&self) -> &[Cors] {
        &self.cors
    }

    /// Registers a watch that is called when sessions and accounts end, in the transactions that
    /// end them. The app needs an authentication plugin that calls it.
    pub fn watch_sessions(&mut self, watch: impl SessionWatch) {
        SessionWatches::add(&self.adapters, Arc::new(watch));
    }

    /// The entities of all packages, those of plugins included.
    pub fn entities(&self) -> &[&'static EntityEntry] {
        &self.entities
    }

    /// The routes of the app: those of entities and packages, and those of plugins.
    pub fn routes(&self) -> &[MountedRoute] {
        &self.routes
    }

    /// The registrar of the checks, middleware and evaluator behind the names in policies.
    pub fn registrar(&mut self) -> &mut Registrar {
        &mut self.registrar
    }
}

impl std::fmt::Debug for PostCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostCx")
            .field("registrar", &self.registrar)
            .field("credentials", &self.credentials.is_some())
            .finish_non_exhaustive()
    }
}
