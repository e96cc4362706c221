//! Extra routes: functions of the user mounted below an entity, under its policy.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;

use super::PolicyDesc;
use crate::entity::{Entity, SourceLine};
use crate::operation::RouteSpec;

/// What a mounted function looks like to the dispatcher: policy has been applied, the [`Cx`](crate::Cx), the app's
/// [`Adapters`](crate::Adapters) and path parameters are in the request's extensions.
pub type ExtraHandler = fn(Request<Body>) -> ResponseFuture;

/// The answer of an [`ExtraHandler`].
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An extra route as declared with `#[route]`.
#[derive(Debug, Clone, Copy)]
pub struct ExtraRouteSpec {
    /// The function's name.
    pub name: &'static str,
    /// Method and path below the entity.
    pub route: RouteSpec,
    /// Its part of the policy, merged over `routes.defaults`.
    pub policy: PolicyDesc,
    /// The function, as an axum handler.
    pub handler: ExtraHandler,
    /// The doc comment.
    pub doc: &'static str,
    /// Where it is declared.
    pub at: SourceLine,
}

/// An extra route of `E`: what `#[route]` makes of a function.
pub struct ExtraRoute<E> {
    spec: ExtraRouteSpec,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> ExtraRoute<E> {
    /// Wraps what the macro wrote.
    #[doc(hidden)]
    pub const fn new(spec: ExtraRouteSpec) -> Self {
        Self { spec, entity: PhantomData }
    }

    /// The declaration, as data.
    pub const fn spec(&self) -> ExtraRouteSpec {
        self.spec
    }
}

/// Runs a function with any of axum's extractors as arguments; for expansions of `#[route]`.
#[doc(hidden)]
pub fn call_handler<H, T>(handler: H, request: Request<Body>) -> ResponseFuture
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Box::pin(handler.call(request, ()))
}
