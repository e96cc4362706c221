//! Functions that replace the executors of routes.

use std::sync::Arc;

use crate::Result;
use crate::entity::{Entity, EntityDesc};
use crate::http::{Action, Endpoint, Override, OverrideCall};
use crate::operation::{OpSpec, Operation};
use crate::resource::Outcome;

/// A function that replaces the executor of a route: policy, parsing, validation and projection
/// stay. Apps call [`App::override_route`](super::App::override_route); plugins return overrides of
/// their own entities from [`Plugin::overrides`](super::Plugin::overrides).
///
/// ```
/// use linchpin::prelude::*;
/// use linchpin::{Route, RouteOverride};
///
/// #[entity(routes(auth = none))]
/// #[derive(Clone, Debug)]
/// pub struct Note {
///     #[field(primary, default = uuid)]
///     pub id: String,
/// }
///
/// let refused = RouteOverride::route::<Note, _, _>(Route::Delete, |_| async {
///     Err(linchpin::Error::forbidden())
/// });
/// # drop(refused);
/// ```
#[derive(Clone)]
pub struct RouteOverride {
    pub(super) entity: &'static EntityDesc,
    pub(super) name: &'static str,
    /// The methods of a collection; each method has its own route.
    parts: &'static [&'static OpSpec],
    pub(super) run: Override,
}

impl RouteOverride {
    /// Replaces the executor of a generated route of `E`.
    pub fn route<E, F, Fut>(route: Route, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        Self::new::<E, _, _>(route.name(), &[], run)
    }

    /// Replaces the executor of an operation's routes; for a collection, the executor of each
    /// method.
    pub fn operation<E, F, Fut>(operation: Operation<E>, run: F) -> Self
    where
        E: Entity,
        F: Fn(OverrideCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome>> + Send + 'static,
    {
        let spec = operation.spec();
        Self::new::<E, _, _>(spec.name, spec.parts, run)
    }

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

impl std::fmt::Debug for RouteOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteOverride")
            .field("entity", &self.entity.name)
            .field("route", &self.name)
            .finish_non_exhaustive()
    }
}

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
