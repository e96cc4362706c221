//! Linchpin: declare entities and operations as annotated Rust; get checked adapters, HTTP routes
//! and durable stores.
//!
//! An [`entity`](macro@entity) is a struct: it becomes a table, five routes and a typed adapter. An
//! [`operation`](macro@operation) is a const: it becomes a route, a method of the adapter and one
//! atomic statement. A [`package!`] lists both, and an [`App`] serves packages. A mistake in a
//! declaration is a compile error. A mistake in the environment is an error at start-up.
//!
//! ```no_run
//! use linchpin::prelude::*;
//!
//! /// A note of one user. Callers see their own notes only.
//! #[entity(scope(owner_id = ctx(actor.id)), index(owner_id))]
//! #[derive(Clone, Debug)]
//! pub struct Note {
//!     #[field(primary, default = uuid)]
//!     pub id: String,
//!     pub owner_id: String,
//!     #[field(length = 1..=500)]
//!     pub text: String,
//!     #[field(default = false, read_only)]
//!     pub done: bool,
//! }
//!
//! /// Marks a note as done: `POST /notes/{id}/finish`.
//! #[operation(kind = "transition", field = done, from = false, to = true)]
//! pub const FINISH: Operation<Note>;
//!
//! pub static NOTES: Package = package!(name = "notes", entities = [entity(Note, [FINISH])]);
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     App::new(Config::from_env()?).package(&NOTES).run().await
//! }
//! ```
//!
//! # Further reading
//!
//! - [`entity`](macro@entity): options of entities and fields, and the keys of policies.
//! - [`operation`](macro@operation): every kind of operation, with an example.
//! - [`route`](macro@route): serves a Rust function as a route.
//! - [`Config`]: every environment variable with its default.
//! - [`Plugin`]: extensions of an app, such as authentication.
//! - [`testing`]: calls an app within a test.
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `server` (default) | HTTP, the app and the memory store; without it, only declarations and filters |
//! | `jwt` (default) | `JwtAuth`: authentication by bearer tokens |
//! | `sqlite` (default) | SQLite as a store |
//! | `postgres` | PostgreSQL as a store |

pub mod prelude;
pub mod transforms;

#[doc(hidden)]
pub mod __private;

#[doc(inline)]
pub use linchpin_core::{
    Actor, ActorKind, Attached, Code, ContextDesc, ContextValue, DecodeError, Embedded, Entity,
    EntityEntry, Error, Field, FieldEnum, Json, Operation, Package, Page, PageArgs, Param,
    ParseTimestampError, Problem, Result, Roles, Timestamp, TypeAt, Uuid, Value, ValueAt, ValueRef,
    context, entity, filter, package, schema, suggest, validate,
};
#[cfg(feature = "jwt")]
#[doc(inline)]
pub use linchpin_jwt::JwtAuth;
#[doc(inline)]
pub use linchpin_macros::{
    Embedded, FieldEnum, Roles, computed, entity, migrations, operation, package, projection,
    route, transform,
};
/// The version of axum that Linchpin uses. Handlers of `#[route]` and routers of plugins import
/// axum from here, so that the versions always match.
#[cfg(feature = "server")]
pub use linchpin_server::axum;
#[cfg(feature = "server")]
#[doc(inline)]
pub use linchpin_server::{
    AccessRequest, ActorRef, Adapter, Adapters, App, AppEvent, Attachment, BoxFuture, Command,
    Config, Cx, DatabaseUrl, Decision, Durability, EntityEvent, EntityGap, Environment, Evaluator,
    Event, EventBus, EventSink, Gap, Lagged, MiddlewareCx, MountedRoute, Plugin, PostCx, Postgres,
    RankRequest, Registrar, ResultFuture, Route, RouteOverride, RoutesCx, Running, SchemaCheck,
    SigningSecret, StartupError, Subscription, audit, event, http, migrate, openapi, operation,
    permission, resource, seal, search, settings, store, testing,
};

/// The policies of routes, as stored in declarations.
#[cfg(not(feature = "server"))]
pub mod http {
    pub use linchpin_core::operation::ExtraRouteSpec;
    pub use linchpin_core::policy::{
        AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
        PolicyDesc, RateLimit,
    };
}
#[cfg(not(feature = "server"))]
#[doc(inline)]
pub use linchpin_core::{operation, store};

/// The examples in the documentation of the macros, as documentation tests of this crate.
#[cfg(all(doctest, feature = "sqlite"))]
mod macro_docs {
    macro_rules! examples {
        ($($name:ident: $file:literal,)*) => {$(
            #[doc = include_str!(concat!("../../macros/docs/", $file, ".md"))]
            pub struct $name;
        )*};
    }

    examples! {
        Entity: "entity",
        Operation: "operation",
        Package: "package",
        Route: "route",
        Projection: "projection",
        FieldEnum: "field_enum",
        Embedded: "embedded",
        Computed: "computed",
        Roles: "roles",
        Transform: "transform",
        Migrations: "migrations",
    }
}
