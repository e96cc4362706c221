//! Related records in a response: `include` and `derive`. A caller who may not call the `get` or
//! `list` route of another entity may not read its records through another route either.

use std::sync::Arc;

use axum::http::request::Parts;

use super::auth::{AuthCheck, RoleCheck};
use super::checks::RouteChecks;
use super::endpoint::{Action, Endpoint, Policy};
use super::path_guard::{self, PathGuards};
use super::rate::Limiter;
use super::router::HttpState;
use super::{AuthDesc, mounted};
use crate::entity::EntityDesc;
use crate::operation::Method;
use crate::resource::{Adapters, Table};
use crate::store::Projection;
use crate::{Cx, Result};

/// A route whose response contains records of other entities, and the app that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct RouteContext<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) all: &'a [Endpoint],
    pub(super) state: &'a HttpState,
}

/// A request for related records.
#[derive(Clone, Copy)]
pub(super) struct RelatedRequest<'a> {
    pub(super) cx: &'a Cx,
    pub(super) parts: &'a Parts,
    pub(super) adapters: &'a Adapters,
}

/// The route of a related entity whose policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelatedRoute {
    /// One record.
    Get,
    /// Many records.
    List,
}

/// The policy of a related entity's own `get` or `list` route.
pub(super) struct RelatedPolicy {
    /// The related entity's route, for its middleware.
    route: Endpoint,
    /// Counts calls together with those of that route.
    limiter: Option<Limiter>,
    /// Guards of the app that match the path of that route.
    path_guards: Option<PathGuards>,
    check: Option<AuthCheck>,
    roles: &'static [&'static str],
    require_role: RoleCheck,
    /// Guards, middleware and permission.
    checks: Option<Box<RouteChecks>>,
}

/// The policy of an entity for its records in responses of other routes.
pub(crate) fn policy(entity: &EntityDesc, kind: RelatedRoute) -> Policy {
    let [_, _, get, ..] = entity.routes;
    Policy::effective(if kind == RelatedRoute::Get {
        get.or(entity.defaults)
    } else {
        entity.list_policy()
    })
}

/// An entity that a `derive` operation reads, and the policy of its list.
struct Source {
    table: Arc<Table>,
    policy: RelatedPolicy,
}

/// The entities that a `derive` operation reads. Empty for other routes.
#[derive(Default)]
pub(super) struct Sources {
    each: Box<[Source]>,
    closed: bool,
}

impl RelatedPolicy {
    /// The policy of `table` for `route_context.endpoint`. `name` is the relation or operation, for
    /// messages.
    ///
    /// # Errors
    /// The reason why the policy cannot be applied.
    pub(super) fn new(
        route_context: &RouteContext<'_>,
        table: &Arc<Table>,
        kind: RelatedRoute,
        name: &str,
    ) -> std::result::Result<Self, String> {
        let RouteContext {
            endpoint: outer,
            all,
            state,
        } = *route_context;
        let policy = policy(table.desc, kind);
        let check = match policy.auth {
            AuthDesc::None => None,
            AuthDesc::Named(auth) => match state.auth.check(auth) {
                Some(check) => Some(Arc::clone(check)),
                None => {
                    return Err(format!(
                        "{name} needs auth `{auth}`, which no plugin registers"
                    ));
                }
            },
        };
        // A list is the action even for one related record: then an actor without the permission
        // sees only their own records.
        let mut route = Endpoint {
            method: Method::Get,
            path: String::new(),
            table: Some(Arc::clone(table)),
            action: Action::List,
            policy,
            name: if kind == RelatedRoute::Get {
                "get"
            } else {
                "list"
            }
            .to_owned(),
            at: table.desc.at,
            run: None,
            plugin: None,
            guards: Vec::new(),
            around: &[],
        };
        let own = |e: &&Endpoint| match e.action {
            Action::Get => kind == RelatedRoute::Get,
            Action::List => kind == RelatedRoute::List,
            _ => false,
        };
        let [_, list, get, ..] = table.desc.mounts;
        let own_mount = if kind == RelatedRoute::Get { get } else { list };
        if let Some(target) = all.iter().filter(own).find(|e| mounted::is_of(table, e)) {
            route.path.clone_from(&target.path);
            route.name.clone_from(&target.name);
            route.guards.clone_from(&target.guards);
            route.around = target.around;
        } else if let Some((path, other_route)) = mounted::path_of_generated(table, own_mount, all)
        {
            // The route is not mounted. The path guards on its path still decide which callers may
            // read its records.
            (route.path, route.around) = (path, other_route.around);
            path_guard::guard(&state.guards, std::slice::from_mut(&mut route));
        }
        let refused = |missing: Vec<String>| format!("{name} {}", missing.join(", and "));
        let path_guards = PathGuards::new(&route.guards, &state.auth).map_err(refused)?;
        let mut checks = RouteChecks::new(&route, &state.auth, &state.registry).map_err(refused)?;
        if let Some(checks) = &mut checks {
            checks.leave_out(&route, outer);
        }
        let checks = checks.filter(|checks| checks.restrict_readers());
        let require_role = Arc::clone(&state.auth.require_role);
        let limiter = policy.rate_limit.map(|limit| {
            // Without a route, calls are counted under the storage name.
            let counted = match route.path.as_str() {
                "" => Endpoint {
                    path: table.desc.storage_name.to_owned(),
                    ..route.clone()
                },
                _ => route.clone(),
            };
            Limiter::new(&counted, limit, Arc::clone(&state.rates))
        });
        Ok(Self {
            route,
            limiter,
            path_guards,
            check,
            roles: policy.roles,
            require_role,
            checks,
        })
    }

    /// The fields of a related record that the response contains: the `output` of the related
    /// route.
    ///
    /// # Errors
    /// As [`RelatedPolicy::new`].
    pub(super) fn projection(
        &self,
        table: &Table,
        name: &str,
    ) -> std::result::Result<Arc<Projection>, String> {
        let Some(names) = self.route.policy.output else {
            return Ok(Arc::clone(&table.projection));
        };
        let chosen = mounted::fields(table, names)
            .ok_or_else(|| format!("{name} has an `output` with a field that the entity lacks"))?;
        Ok(Arc::new(Projection::of(table.desc, |i, field| {
            field.readable() && chosen.contains(&i)
        })))
    }

    /// Whether the policy depends on the caller.
    pub(super) fn varies(&self) -> bool {
        self.check.is_some() || self.path_guards.is_some() || self.checks.is_some()
    }

    /// The call context, limited to the related records that the caller may read. The permission of
    /// the outer route does not apply here.
    ///
    /// # Errors
    /// The errors of the related route's policy.
    pub(super) async fn admit(&self, request: RelatedRequest<'_>) -> Result<Cx> {
        let cx = request.cx.unlimited();
        if let (Some(limiter), Some(actor)) = (&self.limiter, cx.get_actor()) {
            limiter.admit(actor, cx.address(), cx.now()).await?;
        }
        if let Some(path_guards) = &self.path_guards {
            // The record is not known yet, so all guards below the path are checked.
            path_guards.admit(&cx, None)?;
        }
        if let Some(actor) = cx.get_actor() {
            if let Some(check) = &self.check {
                check(actor)?;
            }
            if !self.roles.is_empty() {
                (self.require_role)(actor, self.roles)?;
            }
        }
        let Some(checks) = &self.checks else {
            return Ok(cx);
        };
        checks.guard(&cx)?;
        checks.pass(&self.route, &request, &cx).await?;
        match &checks.permit {
            Some(permit) => permit.list(&permit.check_before_record(cx).await?).await,
            None => Ok(cx),
        }
    }
}

impl Sources {
    /// The sources of a route; empty unless it is a `derive` operation.
    ///
    /// # Errors
    /// The reason why one of the policies cannot be applied.
    pub(super) fn new(
        route_context: &RouteContext<'_>,
        table: &Table,
    ) -> std::result::Result<Self, String> {
        let Action::Operation(spec, _) = route_context.endpoint.action else {
            return Ok(Self::default());
        };
        let Some(derive) = spec.kind.derived() else {
            return Ok(Self::default());
        };
        let source = |entity: &'static EntityDesc| {
            let name = format!("source `{}` of `{}`", entity.name, spec.name);
            let table = table
                .sibling(entity)
                .map_err(|_| format!("{name} is in no package of this app"))?;
            Ok(Source {
                policy: RelatedPolicy::new(route_context, &table, RelatedRoute::List, &name)?,
                table,
            })
        };
        let each: Box<[Source]> = derive
            .entities()
            .into_iter()
            .map(source)
            .collect::<std::result::Result<_, String>>()?;
        let closed = each.iter().any(|source| source.policy.varies());
        Ok(Self { each, closed })
    }

    /// Whether the route reads no other lists.
    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Whether the policy of any of the lists depends on the caller.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The call context, after the check of every list that the route may read, even if it will not
    /// read all of them: the response must not depend on records that the caller may not see.
    ///
    /// # Errors
    /// The error of the first list that refuses the caller.
    pub(super) async fn admit(&self, request: RelatedRequest<'_>) -> Result<Cx> {
        let mut lists = Vec::with_capacity(self.each.len());
        for Source { table, policy } in &self.each {
            let cx = policy.admit(request).await?;
            table.admit(&cx, "list")?;
            lists.push((table.desc, cx));
        }
        Ok(request.cx.let_through(lists))
    }
}
