//! `include`: what a read shows beside its records, two relations deep.

use std::sync::Arc;

use axum::http::request::Parts;

use super::auth::{AuthCheck, RoleCheck};
use super::endpoint::{Action, Endpoint, Policy};
use super::gates::Gates;
use super::path_guard::PathGuards;
use super::query::{self, Pair};
use super::rate::Limiter;
use super::router::HttpState;
use super::{AuthDesc, mounted};
use crate::entity::{EntityDesc, Link, Relation, ScopeFrom};
use crate::operation::Method;
use crate::resource::{Adapters, BoxFuture, Include, Includes, Table, field_of};
use crate::store::Projection;
use crate::{Cx, Error, Problem, Result};

/// Most paths in one request.
pub(crate) const MAX_PATHS: usize = 8;
/// Most relations in one path.
pub(crate) const MAX_DEPTH: usize = 2;

/// The name of the parameter.
pub(crate) const NAME: &str = "include";

/// The relations that a route can show with its records; made once.
#[derive(Default)]
pub(super) struct Level {
    relations: Box<[Planned]>,
    /// Whether some of them, or of theirs, are not for everybody.
    closed: bool,
}

/// A relation, with all that can be known before a request asks for it.
struct Planned {
    relation: &'static Relation,
    table: Arc<Table>,
    projection: Arc<Projection>,
    gate: Gate,
    inner: Level,
}

/// The route that shows relations, and what it is part of.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) all: &'a [Endpoint],
    pub(super) state: &'a HttpState,
}

/// A request that wants relations.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) cx: &'a Cx,
    pub(super) parts: &'a Parts,
    pub(super) adapters: &'a Adapters,
}

/// Who may see the other entity's records: the policy of its own `get` or `list`.
struct Gate {
    /// That route, as middleware is told of it.
    route: Endpoint,
    /// Counts calls with those of that route.
    limiter: Option<Limiter>,
    /// Guards of the app that its path lies below.
    before: Option<PathGuards>,
    check: Option<AuthCheck>,
    roles: &'static [&'static str],
    require_role: RoleCheck,
    /// Guards and permission.
    gates: Option<Box<Gates>>,
}

/// The relations that a request names, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted(Vec<(usize, Wanted)>);

/// The paths of relations that begin at an entity, in the order of declaration: `author`, `comments`, `comments.author`.
pub(crate) fn paths(entity: &EntityDesc) -> Vec<String> {
    let mut out = Vec::new();
    for relation in entity.relations {
        out.push(relation.wire.to_owned());
        out.extend((relation.target)().relations.iter().map(|inner| format!("{}.{}", relation.wire, inner.wire)));
    }
    out
}

/// The policy that guards what a relation shows.
pub(crate) fn policy(relation: &Relation) -> Policy {
    let target = (relation.target)();
    let [_, list, get, ..] = target.routes;
    let declared = if let Link::BelongsTo { .. } = relation.link { get } else { list };
    Policy::effective(declared.or(target.defaults))
}

impl Level {
    /// The relations of an entity, so many deep.
    ///
    /// # Errors
    /// The text of what is wrong with one of them.
    pub(super) fn new(around: &Around<'_>, table: &Table, depth: usize) -> std::result::Result<Self, String> {
        if depth == 0 {
            return Ok(Self::default());
        }
        let Around { endpoint: outer, all, state } = *around;
        let planned = |relation: &'static Relation| {
            let name = format!("relation `{}` of `{}`", relation.name, table.desc.name);
            let other = table.sibling((relation.target)()).map_err(|_| {
                let target = (relation.target)().name;
                format!("{name} leads to `{target}`, which is in no package of this app")
            })?;
            if let Link::HasMany { key, .. } = relation.link
                && field_of(&other, key).is_none()
            {
                return Err(format!("{name} goes by `{key}`, which `{}` lacks", other.desc.name));
            }
            // Below a second parent nobody could say where a page of many goes on.
            if let Link::HasMany { key, .. } = relation.link
                && other
                    .desc
                    .scope
                    .iter()
                    .any(|scope| matches!(scope.from, ScopeFrom::Path(_)) && other.desc.fields[scope.field].name != key)
            {
                let (target, parents) = (other.desc.name, other.desc.parent_path.unwrap_or_default());
                return Err(format!("{name} leads to `{target}`, which lives below `{parents}`: its pages could not go on"));
            }
            let policy = policy(relation);
            let check = match policy.auth {
                AuthDesc::None => None,
                AuthDesc::Named(auth) => match state.auth.check(auth) {
                    Some(check) => Some(Arc::clone(check)),
                    None => return Err(format!("{name} asks for auth `{auth}`, which nobody registered")),
                },
            };
            let projection = match policy.output {
                None => Arc::clone(&other.projection),
                Some(names) => {
                    let chosen =
                        mounted::fields(&other, names).ok_or_else(|| format!("{name} is narrowed to a field that is not there"))?;
                    Arc::new(Projection::of(other.desc, |i, field| field.readable() && chosen.contains(&i)))
                }
            };
            // As a list asks: an actor without the permission sees records of their own, if any.
            let mut route = Endpoint {
                method: Method::Get,
                path: String::new(),
                table: Some(Arc::clone(&other)),
                action: Action::List,
                policy,
                name: relation.name.to_owned(),
                at: other.desc.at,
                run: None,
                plugin: None,
                guards: Vec::new(),
                around: &[],
            };
            let one = matches!(relation.link, Link::BelongsTo { .. });
            let own = |e: &&Endpoint| match e.action {
                Action::Get => one,
                Action::List => !one,
                _ => false,
            };
            let same = |e: &&Endpoint| e.table.as_ref().is_some_and(|t| t.desc.storage_name == other.desc.storage_name);
            if let Some(target) = all.iter().filter(own).find(same) {
                route.path.clone_from(&target.path);
                route.name.clone_from(&target.name);
                route.guards.clone_from(&target.guards);
                route.around = target.around;
            }
            let refused = |missing: Vec<String>| format!("{name} {}", missing.join(", and "));
            let before = PathGuards::new(&route.guards, &state.auth).map_err(refused)?;
            let mut gates = Gates::new(&route, &state.auth, &state.registry).map_err(refused)?;
            if let Some(gates) = &mut gates {
                gates.leave_out(&route, outer);
            }
            let require_role = Arc::clone(&state.auth.require_role);
            let limiter = policy.rate_limit.map(|limit| {
                // Without a route it is counted under the name of what is stored.
                let counted = match route.path.as_str() {
                    "" => Endpoint { path: other.desc.storage_name.to_owned(), ..route.clone() },
                    _ => route.clone(),
                };
                Limiter::new(&counted, limit, Arc::clone(&state.rates))
            });
            let gate = Gate { route, limiter, before, check, roles: policy.roles, require_role, gates };
            Ok(Planned { relation, inner: Self::new(around, &other, depth - 1)?, table: other, projection, gate })
        };
        let relations: Box<[Planned]> = table.desc.relations.iter().map(planned).collect::<std::result::Result<_, String>>()?;
        let varies = |gate: &Gate| gate.check.is_some() || gate.before.is_some() || gate.gates.is_some();
        let seen = |table: &Table| super::context::seen_by(table.desc).next().is_some();
        let closed = relations.iter().any(|planned| varies(&planned.gate) || seen(&planned.table) || planned.inner.closed);
        Ok(Self { relations, closed })
    }

    /// Whether there is nothing to include.
    pub(super) fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Whether some of them are not for everybody.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn position(&self, wire: &str) -> Option<(usize, &Planned)> {
        self.relations.iter().enumerate().find(|(_, planned)| planned.relation.wire == wire)
    }

    /// Whether every path names relations that there are, as deep as paths may go. Empty ones are no matter of names.
    pub(super) fn knows(&self, pair: &Pair<'_>) -> bool {
        let known = |path: &str| {
            let mut level = Some(self);
            path.is_empty()
                || path.split('.').take(MAX_DEPTH).all(|name| match level.take().and_then(|level| level.position(name)) {
                    Some((_, planned)) => {
                        level = Some(&planned.inner);
                        true
                    }
                    None => false,
                })
        };
        pair.value.as_deref().is_none_or(|text| text.split(',').all(known))
    }

    /// Reads the parameter, whose names are known; problems are pushed.
    pub(super) fn read(&self, pair: &Pair<'_>, problems: &mut Vec<Problem>) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(text) = query::text(pair, problems) else { return wanted };
        let mut problem = |code, message: String| problems.push(Problem::new(pair.path(), code, message));
        let mut seen: Vec<&str> = Vec::new();
        for path in text.split(',') {
            if path.is_empty() {
                problem("empty", "names relations, separated by commas".to_owned());
                return wanted;
            }
            if path.split('.').count() > MAX_DEPTH {
                problem("too_many", format!("a path names at most {MAX_DEPTH} relations"));
                return wanted;
            }
            if seen.contains(&path) {
                problem("duplicate", "must name each path once".to_owned());
                return wanted;
            }
            if seen.len() == MAX_PATHS {
                problem("too_many", format!("at most {MAX_PATHS} paths"));
                return wanted;
            }
            seen.push(path);
            wanted.add(self, path);
        }
        wanted
    }

    /// What a request wants, if the caller may see it.
    ///
    /// # Errors
    /// 401 or 403, for the whole request.
    pub(super) fn allowed<'a>(&'a self, wanted: &'a Wanted, asking: Asking<'a>) -> BoxFuture<'a, Result<Includes>> {
        Box::pin(async move {
            let mut relations = Vec::with_capacity(wanted.0.len());
            for (at, inner) in &wanted.0 {
                let planned = self.relations.get(*at).ok_or_else(|| Error::internal("a relation that is not there"))?;
                relations.push(Include {
                    relation: planned.relation,
                    table: Arc::clone(&planned.table),
                    projection: Arc::clone(&planned.projection),
                    cx: planned.gate.admit(asking).await?,
                    inner: planned.inner.allowed(inner, asking).await?,
                });
            }
            Ok(Includes { relations })
        })
    }
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path whose names are known, and what leads to it.
    fn add(&mut self, level: &Level, path: &str) {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let Some((at, planned)) = level.position(first) else { return };
        let place = self.0.iter().position(|(of, _)| *of == at).unwrap_or_else(|| {
            self.0.push((at, Self::default()));
            self.0.len() - 1
        });
        if let Some(rest) = rest {
            self.0[place].1.add(&planned.inner, rest);
        }
    }
}

impl Gate {
    /// The call, limited to what it may see; what limits the records that these belong to is no matter here.
    async fn admit(&self, asking: Asking<'_>) -> Result<Cx> {
        let cx = asking.cx.unlimited();
        if let (Some(limiter), Some(actor)) = (&self.limiter, cx.get_actor()) {
            limiter.admit(actor, cx.address(), cx.now()).await?;
        }
        if let Some(before) = &self.before {
            // Which record it is shows later: all that may stand before one are asked.
            before.admit(&cx, None)?;
        }
        if let Some(actor) = cx.get_actor() {
            if let Some(check) = &self.check {
                check(actor)?;
            }
            if !self.roles.is_empty() {
                (self.require_role)(actor, self.roles)?;
            }
        }
        let Some(gates) = &self.gates else { return Ok(cx) };
        gates.guard(&cx)?;
        gates.pass(&self.route, &asking, &cx).await?;
        match &gates.permit {
            Some(permit) => permit.list(&permit.enter(cx).await?).await,
            None => Ok(cx),
        }
    }
}
