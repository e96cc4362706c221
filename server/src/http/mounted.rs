//! An endpoint with the data that is prepared at start-up.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;

use super::AuthDesc;
use super::auth::AuthCheck;
use super::checks::RouteChecks;
use super::context::{self, ContextProviders};
use super::endpoint::{Action, Endpoint};
use super::extra::handler_of;
use super::idempotency::{self, KeyedCalls};
use super::include::{Level, MAX_DEPTH};
use super::list::ListParams;
use super::operation::{NewRecordLocation, OperationPlan};
use super::path;
use super::path_guard::PathGuards;
use super::plugin_routes::PluginRoutePlan;
use super::rate::Limiter;
use super::related::{RouteContext, Sources};
use super::router::HttpState;
use crate::cx::Auditing;
use crate::entity::ScopeFrom;
use crate::operation::permit::Permit;
use crate::operation::{Answer, Method, Place, RouteSpec};
use crate::resource::{Form, Table};
use crate::store::Projection;
use crate::{Error, Result};

/// The longest body of a route without input, which accepts only `{}`: 4 KiB. The limit is longer
/// than these two bytes, so that white space is accepted, and a body with members gets a validation
/// error instead of 413.
const NO_INPUT: u64 = 4 << 10;

/// An endpoint that is ready for requests.
pub(super) struct Mounted {
    pub(super) endpoint: Endpoint,
    /// Guards of the app on path prefixes; `None` if none covers this path.
    pub(super) path_guards: Option<PathGuards>,
    /// Whether the server authenticates the caller; otherwise the function of the route does.
    pub(super) finds_caller: bool,
    /// Checks the credentials; `None` if the route is public.
    pub(super) auth: Option<AuthCheck>,
    /// Whether a call can emit events.
    pub(super) emits: bool,
    /// Guards, middleware, permission and context providers; `None` if the route has none.
    pub(super) checks: Option<Box<RouteChecks>>,
    /// Writes changes to the audit log; `None` if the route is not audited.
    pub(super) audit: Option<Arc<Auditing>>,
    /// Limits the rate of calls; `None` if the policy has no limit.
    pub(super) limiter: Option<Box<Limiter>>,
    /// Recognizes repeated calls; `None` if the route is not idempotent.
    pub(super) idempotency: Option<Box<KeyedCalls>>,
    /// The maximum length of a body, in bytes.
    pub(super) max_body: u64,
    pub(super) plan: Plan,
}

/// Data prepared at start-up that each request uses.
pub(super) enum Plan {
    /// A route of an entity.
    Entity(Box<Target>, EntityPlan),
    /// A function with `#[route]`. Its router has only this path, so that extractors see the
    /// parameter names that the user wrote.
    Extra(axum::Router),
    /// A function of a plugin.
    Plugin(Box<PluginRoutePlan>),
}

/// The kind of an entity's route.
pub(super) enum EntityPlan {
    Create(NewRecordLocation),
    List(ListParams),
    Get,
    Update,
    Delete,
    Operation(OperationPlan),
}

/// The entity of a route, and the form of its records.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    pub(super) form: Form,
    pub(super) projection: Arc<Projection>,
    /// The fields that the policy allows in a body; `None` allows all writable fields.
    pub(super) input: Option<Box<[usize]>>,
    /// The relations that `include` accepts.
    pub(super) include: Level,
    /// The source entities of a `derive` operation.
    pub(super) sources: Sources,
    /// Whether the visible records depend on the caller or on the context.
    pub(super) restricted: bool,
    /// The parameters of the parent path: the position in the path, and the field with that value.
    pub(super) parents: Box<[(usize, usize)]>,
}

impl Mounted {
    pub(super) fn new(
        endpoint: &Endpoint,
        names: &[String],
        all: &[Endpoint],
        state: &HttpState,
        providers: Option<&Arc<ContextProviders>>,
    ) -> Result<Self> {
        let auth = match endpoint.policy.auth {
            AuthDesc::None => None,
            AuthDesc::Named(name) => match state.auth.check(name) {
                Some(check) => Some(Arc::clone(check)),
                None => {
                    return Err(refuse(
                        endpoint,
                        &format!("needs auth `{name}`, which no plugin registers"),
                    ));
                }
            },
        };
        let audit = match (
            endpoint.policy.audit.filter(|_| endpoint.changes()),
            &state.audit,
        ) {
            (None, _) => None,
            (Some(action), Some(_)) => {
                let entity = endpoint.table.as_ref().map(|table| table.desc);
                let route = endpoint.action.name();
                Some(Arc::new(Auditing::new(
                    action,
                    route,
                    entity,
                    endpoint.policy.permission,
                )))
            }
            (Some(_), None) => {
                return Err(refuse(endpoint, "is audited, but the app has no audit log"));
            }
        };
        let emits = endpoint.method != Method::Get && state.adapters.emits();
        let limiter = endpoint
            .policy
            .rate_limit
            .map(|limit| Box::new(Limiter::new(endpoint, limit, Arc::clone(&state.rates))));
        let path_guards = PathGuards::new(&endpoint.guards, &state.auth)
            .map_err(|missing| refuse(endpoint, &missing.join(", and ")))?;
        let mut checks = RouteChecks::new(endpoint, &state.auth, &state.registry)
            .map_err(|missing| refuse(endpoint, &missing.join(", and ")))?;
        if let Some(providers) = providers {
            let checks = checks.get_or_insert_default();
            checks.context = Some(Arc::clone(providers));
            checks.varies = !context::needed(endpoint).is_empty();
        }
        let idempotency = match (
            endpoint
                .policy
                .idempotency
                .filter(|_| idempotency::applies(endpoint)),
            &state.claims,
        ) {
            (None, _) => None,
            (Some(policy), Some(claims)) => Some(Box::new(KeyedCalls::new(
                endpoint,
                policy,
                Arc::clone(claims),
            ))),
            (Some(_), None) => {
                return Err(refuse(
                    endpoint,
                    "is idempotent, but the app has no table of idempotency keys",
                ));
            }
        };
        let plan = Plan::new(endpoint, names, all, state)?;
        Ok(Self {
            max_body: if plan.takes_input() {
                endpoint.policy.max_body
            } else {
                endpoint.policy.max_body.min(NO_INPUT)
            },
            // A guard of the app needs the caller.
            finds_caller: path_guards.is_some()
                || !matches!(endpoint.action, Action::Plugin(desc) if desc.finds_caller),
            path_guards,
            audit,
            auth,
            checks,
            emits,
            limiter,
            idempotency,
            plan,
            endpoint: endpoint.clone(),
        })
    }

    /// Whether the response of a public route depends on the caller.
    pub(super) fn varies(&self) -> bool {
        let closed = matches!(&self.plan, Plan::Entity(target, _) if target.sources.is_closed());
        closed || self.checks.as_ref().is_some_and(|checks| checks.varies)
    }

    /// Returns the permission that the route needs on a record.
    pub(super) fn permit(&self) -> Option<&Permit> {
        self.checks.as_ref()?.permit.as_ref()
    }
}

impl Plan {
    /// Whether the body may have members.
    fn takes_input(&self) -> bool {
        match self {
            Self::Entity(_, EntityPlan::Get | EntityPlan::List(_) | EntityPlan::Delete) => false,
            Self::Entity(_, EntityPlan::Operation(plan)) => plan.takes_body(),
            Self::Entity(_, EntityPlan::Create(_) | EntityPlan::Update)
            | Self::Extra(_)
            | Self::Plugin(_) => true,
        }
    }

    fn new(
        endpoint: &Endpoint,
        names: &[String],
        all: &[Endpoint],
        state: &HttpState,
    ) -> Result<Self> {
        let table = || {
            endpoint
                .table
                .as_ref()
                .ok_or_else(|| refuse(endpoint, "has no table"))
        };
        let plan = match endpoint.action {
            Action::Create => EntityPlan::Create(new_record_location(endpoint, table()?, all)),
            Action::List => {
                EntityPlan::List(ListParams::new(table()?.desc, endpoint.policy.output))
            }
            Action::Get => EntityPlan::Get,
            Action::Update => EntityPlan::Update,
            Action::Delete => EntityPlan::Delete,
            Action::Operation(spec, _) => {
                let mut plan = OperationPlan::new(spec, endpoint.method, names, table()?)?;
                if let Answer::Upserted { .. } = plan.answer {
                    let table = table()?;
                    plan.location =
                        get_route(table, all).map(|get| new_record_location(get, table, all));
                }
                EntityPlan::Operation(plan)
            }
            Action::Extra(spec) => {
                let route = axum::routing::any(handler_of(&spec)?);
                return Ok(Self::Extra(
                    axum::Router::new()
                        .route(&endpoint.path, route)
                        .layer(DefaultBodyLimit::disable()),
                ));
            }
            Action::Plugin(desc) => {
                let run = endpoint
                    .plugin
                    .clone()
                    .ok_or_else(|| refuse(endpoint, "has no function"))?;
                return Ok(Self::Plugin(Box::new(PluginRoutePlan::new(desc, run)?)));
            }
        };
        let table = table()?;
        let fields = |names| {
            fields(table, names).ok_or_else(|| {
                refuse(
                    endpoint,
                    "has an `input` or `output` with a field that the entity lacks",
                )
            })
        };
        // If an operation returns records of another entity, the output policy does not apply.
        let own =
            !matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.answers().is_some());
        let output = endpoint.policy.output.filter(|_| own);
        let projection = match output.map(fields).transpose()? {
            // A policy cannot show fields that are not readable.
            Some(chosen) => Arc::new(Projection::of(table.desc, |i, field| {
                field.readable() && chosen.contains(&i)
            })),
            None => Arc::clone(&table.projection),
        };
        let form = match endpoint.run {
            // An override returns full records. The response step removes the hidden fields.
            Some(_) if output.is_some() => Form::Records,
            _ => Form::Json(Arc::clone(&projection)),
        };
        let around = RouteContext {
            endpoint,
            all,
            state,
        };
        let unmountable = |what: String| refuse(endpoint, &format!("cannot be mounted: {what}"));
        let target = Target {
            include: Level::new(
                &around,
                table,
                if endpoint.includes() { MAX_DEPTH } else { 0 },
            )
            .map_err(unmountable)?,
            sources: Sources::new(&around, table).map_err(unmountable)?,
            restricted: table.is_restricted(),
            parents: parents(table, names)
                .ok_or_else(|| refuse(endpoint, "lacks a parameter of its parent path"))?,
            table: Arc::clone(table),
            form,
            input: endpoint.policy.input.map(fields).transpose()?,
            projection,
        };
        Ok(Self::Entity(Box::new(target), plan))
    }
}

/// Returns the positions of fields; `None` if the entity lacks one.
pub(super) fn fields(table: &Table, names: &[&str]) -> Option<Box<[usize]>> {
    names
        .iter()
        .map(|name| table.desc.fields.iter().position(|f| f.name == *name))
        .collect()
}

/// Whether a route belongs to an entity.
pub(super) fn is_of(table: &Table, endpoint: &Endpoint) -> bool {
    endpoint
        .table
        .as_ref()
        .is_some_and(|t| t.desc.storage_name == table.desc.storage_name)
}

/// Returns the `get` route of an entity, if it is mounted.
fn get_route<'a>(table: &Table, all: &'a [Endpoint]) -> Option<&'a Endpoint> {
    all.iter()
        .find(|e| matches!(e.action, Action::Get) && is_of(table, e))
}

/// Returns the path prefix of the entity.
///
/// The prefix is the path of the endpoint without the segments of the route, so all routes of an
/// entity have the same prefix. `None` for a plugin route.
fn base(endpoint: &Endpoint, table: &Table) -> Option<String> {
    let mounts = table.desc.mounts;
    let own = match endpoint.action {
        Action::Create => mounts[0].segments,
        Action::List => mounts[1].segments,
        Action::Get => mounts[2].segments,
        Action::Update => mounts[3].segments,
        Action::Delete => mounts[4].segments,
        Action::Operation(spec, _) => {
            let is = |route: &&RouteSpec| {
                route.method == endpoint.method
                    && endpoint.path.ends_with(&path::append("", route.segments))
            };
            spec.routes.iter().find(is)?.segments
        }
        Action::Extra(spec) => spec.route.segments,
        Action::Plugin(_) => return None,
    };
    let mut segments: Vec<&str> = endpoint.path.split('/').filter(|s| !s.is_empty()).collect();
    segments.truncate(segments.len().saturating_sub(own.len()));
    Some(
        segments
            .iter()
            .fold(String::new(), |base, segment| base + "/" + segment),
    )
}

/// Returns the path of a generated route, and one mounted route of the same entity. The generated
/// route itself may be disabled. `None` if the entity has no mounted route.
pub(super) fn path_of_generated<'a>(
    table: &Table,
    own: RouteSpec,
    all: &'a [Endpoint],
) -> Option<(String, &'a Endpoint)> {
    let path_and_route = |e: &'a Endpoint| Some((path::append(&base(e, table)?, own.segments), e));
    all.iter()
        .filter(|e| is_of(table, e))
        .find_map(path_and_route)
}

/// Computes the `Location` of a new record.
///
/// It is the path of the `get` route, or the default path of that route if the route is disabled.
/// `endpoint` is a generated route of the entity.
fn new_record_location(endpoint: &Endpoint, table: &Table, all: &[Endpoint]) -> NewRecordLocation {
    let base = base(endpoint, table).unwrap_or_default();
    let path =
        get_route(table, all).map_or_else(|| format!("{base}/{{id}}"), |get| get.path.clone());
    NewRecordLocation {
        reserved: reserved(&base, table, all),
        parents: path::canonical(&path).1.len().saturating_sub(1),
        path,
    }
}

/// Returns the scopes that read a path parameter.
///
/// Pairs: position of the path parameter, field of the scope. `None` if the path lacks a parameter.
fn parents(table: &Table, names: &[String]) -> Option<Box<[(usize, usize)]>> {
    let bound = table
        .desc
        .scope
        .iter()
        .filter_map(|scope| match scope.from {
            ScopeFrom::Path(name) => Some((name, scope.field)),
            ScopeFrom::Ctx(_) => None,
        });
    bound
        .map(|(name, field)| Some((names.iter().position(|n| n == name)?, field)))
        .collect()
}

/// Returns the words that cannot be ids, because they are static segments of another route: `new`
/// in `/posts/new`.
///
/// It looks for them below the path of the entity, and below every other path that a route of the
/// entity continues with `{id}`.
fn reserved(base: &str, table: &Table, all: &[Endpoint]) -> Box<[String]> {
    let names_one = |e: &&Endpoint| match e.action {
        Action::Get | Action::Update | Action::Delete => true,
        Action::Operation(spec, _) => spec.params.iter().any(|p| p.place == Place::Id),
        Action::Create | Action::List | Action::Extra(_) | Action::Plugin(_) => false,
    };
    let own = all.iter().filter(|e| is_of(table, e)).filter(names_one);
    let mut places: Vec<&str> = own
        .filter_map(|e| Some(e.path.rsplit_once("/{id}")?.0))
        .chain([base])
        .collect();
    places.sort_unstable();
    places.dedup();
    let below = |path: &str, place: &str| {
        path.strip_prefix(place)?
            .strip_prefix('/')?
            .split('/')
            .next()
            .map(str::to_owned)
    };
    let next = all
        .iter()
        .flat_map(|e| places.iter().filter_map(move |place| below(&e.path, place)));
    let mut found: Vec<String> = next
        .filter(|s| !s.is_empty() && !s.starts_with('{'))
        .filter_map(|s| Some(path::decode(&s)?.into_owned()))
        .collect();
    found.sort();
    found.dedup();
    found.into()
}

fn refuse(endpoint: &Endpoint, what: &str) -> Error {
    let (method, at) = (endpoint.method.as_str(), endpoint.at);
    Error::internal(format!(
        "route {method} {} ({}, {at}) {what}",
        endpoint.path, endpoint.name
    ))
}
