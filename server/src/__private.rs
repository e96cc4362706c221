//! The items that macro expansions use. They are not public API: anything here may change in a
//! patch release.
//!
//! An expansion starts with `use ::linchpin::__private as __lp;` and consists of data and calls of
//! the functions below.

pub use crate::Attachment;
pub use crate::Cx;
pub use crate::app::AfterAdapters;
pub use crate::http::{
    Arguments, ByMedia, ByRecord, ByShape, Contents, ContentsOf, ExtraHandler, ExtraRoute,
    ExtraRouteSpec, MiddlewareFn, Otherwise, Probe, ResponseFuture, answered, serve_route,
};
/// The request type of extra routes.
pub type Request = axum::http::Request<axum::body::Body>;
pub use crate::operation::CustomCall;
#[cfg(feature = "postgres")]
pub use crate::operation::OnPostgres;
#[cfg(feature = "sqlite")]
pub use crate::operation::OnSqlite;
pub use crate::operation::custom_call::{
    Erased, made_nothing, made_optional, made_record, made_records, made_value,
};
pub use crate::operation::transition_choice::choose;
pub use crate::operation::{Chooser, Handler, OnMemory};
pub use crate::resource::{Adapter, answer, run};
pub use axum::{extract::FromRequestParts, http::request::Parts};
pub use linchpin_core::__private::*;
pub use linchpin_core::package::assert_route_audited;
pub use linchpin_macros::__operation;

/// Boxes a future; a middleware returns a boxed future.
pub fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> crate::BoxFuture<'a, T> {
    Box::pin(future)
}

/// The description of an extra route. The bound `Itself<E>` makes rustc check that the route
/// belongs to the entity under which it is listed.
pub const fn extra<E: Entity, F: Itself<E>>(route: &ExtraRoute<F>) -> ExtraRouteSpec {
    route.spec()
}

/// The adapter of an entity, for handlers of extra and plugin routes that take it as an argument.
///
/// # Errors
/// When the handler was not mounted through an app, or no package of the app lists the entity.
pub fn adapter_of<E: Entity>(parts: &Parts) -> Result<E::Adapter>
where
    E::Adapter: From<Adapter<E>>,
{
    match parts.extensions.get::<crate::Adapters>() {
        Some(adapters) => adapters.get::<E>(),
        None => Err(Error::internal(
            "the handler was not mounted through an app: there are no adapters",
        )),
    }
}

/// A function of a custom operation, in the form that the runtime calls.
#[doc(hidden)]
#[macro_export]
macro_rules! __handler {
    ($store:literal, $call:pat_param, $answer:expr) => {
        ::core::option::Option::Some((
            $store,
            const {
                &((|$call| $crate::__private::boxed(async move { $answer }))
                    as $crate::__private::Handler)
            },
        ))
    };
}
/// A function of a custom operation for the named store; `None` if this build lacks the store.
#[doc(hidden)]
#[macro_export]
macro_rules! __on_store {
    ("sqlite", $($handler:tt)*) => { $crate::__private::on_sqlite!($($handler)*) };
    ("postgres", $($handler:tt)*) => { $crate::__private::on_postgres!($($handler)*) };
    ($($handler:tt)*) => { $crate::__private::handler!($($handler)*) };
}
/// A function for SQLite.
#[cfg(feature = "sqlite")]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_sqlite {
    ($($handler:tt)*) => { $crate::__private::handler!("sqlite", $($handler)*) };
}
/// `None`: this build lacks SQLite.
#[cfg(not(feature = "sqlite"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_sqlite {
    ($($handler:tt)*) => {
        ::core::option::Option::None
    };
}
/// A function for `PostgreSQL`.
#[cfg(feature = "postgres")]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_postgres {
    ($($handler:tt)*) => { $crate::__private::handler!("postgres", $($handler)*) };
}
/// `None`: this build lacks `PostgreSQL`.
#[cfg(not(feature = "postgres"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_postgres {
    ($($handler:tt)*) => {
        ::core::option::Option::None
    };
}
pub use __handler as handler;
pub use __on_postgres as on_postgres;
pub use __on_sqlite as on_sqlite;
pub use __on_store as on_store;

/// Refuses a function whose `CustomCall` is for another store than the name before the function in
/// `handler(..)`.
///
/// # Panics
/// At compile time, if the names differ.
#[track_caller]
pub const fn assert_on_store<E: Entity, S: crate::store::CustomStore, R>(
    name: &str,
    _: fn(CustomCall<E, S>) -> R,
) {
    assert!(
        same(name, S::NAME),
        "linchpin: the function is for another store than the name before it in `handler(..)`; \
         its first parameter must be `CustomCall<Entity, Store>` with the type of the named store"
    );
}

/// An argument in code that is type-checked but never runs.
pub fn no_argument<T>() -> T {
    unreachable!("the call is only typed")
}
