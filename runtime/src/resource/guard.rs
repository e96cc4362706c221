//! The guard: which records a call may touch. One function makes it, and every statement of an entity passes it.
//!
//! A guard is a conjunction of conditions (tenant, data scope, not deleted, not expired, and what [`gate`](super::gate) adds) whose values are arguments appended
//! to those of the statement, so a prepared statement serves every caller. Which conditions there are depends on who calls:
//! each such [`Reach`] has a statement of its own. Nothing here runs for an entity that declares nothing of the kind.

use super::gate::{Asks, Behind};
use super::touch::touch;
use crate::entity::{EntityDesc, Kind, Link, Relation, ScopeFrom, SoftDelete};
use crate::filter::{CtxPath, Filter, Op, Operand, Source};
use crate::store::{After, Assign, AssignValue, Plan, layout};
use crate::validate::MAX_INTEGER;
use crate::{Cx, Error, Problem, Result, Value};

/// How far a call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Records of the caller's tenant and scopes.
    Caller = 0,
    /// The same, of a caller without a tenant: records that have none.
    NoTenant = 1,
    /// The application itself: every tenant and scope.
    System = 2,
    /// Deleted records as well.
    Deleted = 3,
    /// Records of a caller without a tenant whom nobody knows, where gates make a difference between those.
    Anonymous = 4,
    /// As [`Reach::System`], whatever stands behind the records: what follows from a deletion follows what has been deleted.
    Followed = 5,
}

impl Reach {
    /// Whether somebody calls, and not the application.
    pub(super) fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::NoTenant | Self::Anonymous)
    }
}

/// What a route is allowed to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteGuard {
    /// Positions in the entity's scopes.
    scopes: Vec<usize>,
    /// Anonymous callers read records without a tenant.
    anonymous: bool,
    /// Deleted records, and no others.
    deleted: bool,
    /// It changes nothing, where gates make a difference between that and the rest.
    reads: bool,
}

impl RouteGuard {
    /// Of deleted records, if so.
    pub(crate) fn of_deleted(self, deleted: bool) -> Self {
        Self { deleted, ..self }
    }
}

/// The routes as which records of another entity are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    /// One record, as `get` shows it.
    Get,
    /// Many, as `list` shows them.
    List,
    /// One that another record is about to name, as `get` shows it to whoever may change something.
    Hold,
}

impl Included {
    pub(crate) fn of(relation: &Relation) -> Self {
        match relation.link {
            Link::BelongsTo { .. } => Self::Get,
            Link::HasMany { .. } => Self::List,
        }
    }

    /// What its statements are kept under; no route has such a name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "include get",
            Self::List => "include list",
            Self::Hold => "hold",
        }
    }

    /// The route whose guard holds, and whether it is read for its own sake.
    fn named(name: &str) -> Option<(&'static str, bool)> {
        match name {
            "include get" => Some(("get", true)),
            "include list" => Some(("list", true)),
            "hold" => Some(("get", false)),
            _ => None,
        }
    }
}

/// The guard of an entity.
pub(crate) struct Guard {
    desc: &'static EntityDesc,
    /// Conditions and gates.
    behind: Option<Behind>,
}

impl Guard {
    /// `None` for an entity all of whose records everybody sees.
    pub(crate) fn new(desc: &'static EntityDesc) -> Option<Self> {
        let behind = Behind::of(desc);
        let own = desc.soft_delete.is_some() || desc.ttl.is_some() || desc.tenant.is_some() || !desc.scope.is_empty();
        (own || behind.is_some()).then_some(Self { desc, behind })
    }

    /// What holds on a route. `reads` says that it changes nothing, `unscoped` lifts the data scope.
    pub(crate) fn route(&self, route: &str, reads: bool, unscoped: bool) -> RouteGuard {
        // The parents of a path say where a record is, not who may see it: one that is found by its key needs none.
        let included = Included::named(route);
        let needs = |i: &usize| included.is_none() || !matches!(self.desc.scope[*i].from, ScopeFrom::Path(_));
        let (route, reads) = included.unwrap_or((route, reads));
        let holds = |i: &usize| !unscoped && needs(i) && self.desc.scope[*i].holds_on(route);
        RouteGuard {
            scopes: (0..self.desc.scope.len()).filter(holds).collect(),
            anonymous: reads && self.desc.tenant.is_some_and(|tenant| tenant.anonymous_read),
            deleted: false,
            reads: reads && self.behind.as_ref().is_some_and(|behind| behind.tenants),
        }
    }

    /// Who a call is, as far as its statement depends on it; the values of its tenant and scopes go to `out`.
    ///
    /// # Errors
    /// 401 for an anonymous caller without a value that is needed, 403 for a known one.
    pub(super) fn reach(&self, cx: &Cx, route: &RouteGuard, out: &mut Vec<Value>) -> Result<Reach> {
        if cx.reaches_all() {
            let plain = self.desc.tenant.is_none() && self.desc.scope.is_empty() && self.behind.is_none();
            return Ok(if cx.reaches_deleted() {
                Reach::Deleted
            } else if plain {
                Reach::Caller
            } else if cx.follows() && self.behind.is_some() {
                Reach::Followed
            } else {
                Reach::System
            });
        }
        let tenant = self.tenant(cx, route)?;
        let reach = self.caller(cx, &tenant);
        out.extend((!tenant.is_null()).then_some(tenant));
        for scope in &route.scopes {
            out.push(self.scope(cx, *scope)?);
        }
        if let Some(behind) = &self.behind {
            out.extend(behind.values(|path| cx.value(path)));
        }
        Ok(reach)
    }

    /// Whose records a call sees: the fields of tenant and scopes with their values; nothing for the application itself.
    ///
    /// # Errors
    /// As [`Guard::reach`].
    pub(super) fn owners(&self, cx: &Cx, route: &RouteGuard) -> Result<Vec<(usize, Value)>> {
        if cx.system_reason().is_some() {
            return Ok(Vec::new());
        }
        let tenant = self.desc.tenant.map(|tenant| Ok((tenant.field, self.tenant(cx, route)?)));
        let scopes = route.scopes.iter().map(|scope| Ok((self.desc.scope[*scope].field, self.scope(cx, *scope)?)));
        tenant.into_iter().chain(scopes).collect()
    }

    /// Who calls, as far as it depends on there being a tenant: of the records themselves, or of those behind them.
    fn caller(&self, cx: &Cx, tenant: &Value) -> Reach {
        let behind = self.behind.as_ref().is_some_and(|behind| behind.tenants);
        let without = match self.desc.tenant {
            Some(_) => tenant.is_null(),
            None => behind && cx.value(CtxPath::TenantId).is_null(),
        };
        let known = || cx.get_actor().is_some_and(|actor| actor.id.is_some());
        match without {
            false => Reach::Caller,
            true if behind && !known() => Reach::Anonymous,
            true => Reach::NoTenant,
        }
    }

    /// The caller's tenant; null where records without one are meant, or there are no tenants at all.
    fn tenant(&self, cx: &Cx, route: &RouteGuard) -> Result<Value> {
        let Some(tenant) = self.desc.tenant else { return Ok(Value::Null) };
        let known = cx.get_actor().is_some_and(|actor| actor.id.is_some());
        match cx.value(CtxPath::TenantId) {
            Value::Null if (known && tenant.optional) || (!known && route.anonymous) => Ok(Value::Null),
            Value::Null => Err(missing(known)),
            value => self.fitting(tenant.field, value),
        }
    }

    /// The value of a scope.
    fn scope(&self, cx: &Cx, scope: usize) -> Result<Value> {
        let scope = &self.desc.scope[scope];
        match scope.from {
            ScopeFrom::Ctx(path) => self.fitting(scope.field, cx.bind(path)?),
            ScopeFrom::Path(name) => cx.bound(self.desc, scope.field).ok_or_else(|| {
                let (entity, parent) = (self.desc.name, self.desc.parent_path.unwrap_or_default());
                Error::internal(format!("`{entity}` lives below `{parent}`: say which `{name}` with `cx.within(..)`"))
            }),
        }
    }

    /// A context value as a field holds it. Tenants and ids are texts in the context; one that is no number is nobody's
    /// where fields are numbers.
    fn fitting(&self, field: usize, value: Value) -> Result<Value> {
        Ok(match (self.desc.fields[field].kind, value) {
            (Kind::Integer, Value::Text(text)) => {
                let number = text.parse::<i64>().ok().filter(|n| n.to_string() == text && n.unsigned_abs() <= MAX_INTEGER.unsigned_abs());
                Value::Int(number.ok_or_else(Error::forbidden)?)
            }
            (Kind::String, Value::Int(number)) => Value::Text(number.to_string()),
            (Kind::Integer, value @ Value::Int(_)) | (Kind::String, value @ Value::Text(_)) => value,
            _ => return Err(Error::forbidden()),
        })
    }

    /// Writes tenant, scopes and expiry into the values of a new record, whatever stands there.
    ///
    /// # Errors
    /// As [`Guard::reach`]; 403 for the application itself when a value is required and nobody said which.
    pub(super) fn stamp<V: Held>(&self, cx: &Cx, route: &RouteGuard, values: &mut [V]) -> Result<()> {
        let system = cx.system_reason().is_some();
        let owner = self.desc.tenant.map(|tenant| (tenant.field, None));
        let scopes = route.scopes.iter().map(|i| (self.desc.scope[*i].field, Some(*i)));
        for (field, scope) in owner.into_iter().chain(scopes) {
            let value = match scope {
                _ if system => match cx.bound(self.desc, field).or_else(|| values.get(field).and_then(Held::held)) {
                    Some(value) => value,
                    None if self.desc.fields[field].optional => Value::Null,
                    None => return Err(Error::forbidden()),
                },
                None => self.tenant(cx, route)?,
                Some(scope) => self.scope(cx, scope)?,
            };
            values[field] = value.into();
        }
        if let Some((field, value)) = layout::expiry(self.desc, cx.now()) {
            values[field] = value.into();
        }
        Ok(())
    }

    /// Everything that a page must have in common with the one before, beyond its own conditions.
    pub(super) fn fingerprint(reach: Reach, values: &[Value], out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'g', reach as u8]);
        for value in values {
            super::cursor::encode(value, out);
        }
    }

    /// The plan with the guard in it. Its own arguments end at `base`; the guard's follow, in the order of
    /// [`Guard::arguments`].
    pub(crate) fn plan(&self, plan: &Plan, reach: Reach, route: &RouteGuard, base: usize) -> Plan {
        let slots = Slots::of(self, plan, reach, route, base);
        let with = |filter: &Filter| filter.clone().and(self.conditions(reach, route, &slots));
        match plan {
            Plan::Insert => Plan::Insert,
            Plan::Select { filter, order, after, limit } => {
                Plan::Select { filter: with(filter), order: order.clone(), after: after.clone(), limit: limit.clone() }
            }
            Plan::Related { filter, field, values, order, limit } => {
                Plan::Related { filter: with(filter), field: *field, values: *values, order: order.clone(), limit: limit.clone() }
            }
            Plan::Exists { filter } => Plan::Exists { filter: with(filter) },
            Plan::Hold { filter } => Plan::Hold { filter: with(filter) },
            Plan::Lock { filter, pick } => Plan::Lock { filter: with(filter), pick: pick.clone() },
            Plan::Aggregate { filter, groups, compute, limit } => {
                Plan::Aggregate { filter: with(filter), groups: groups.clone(), compute: compute.clone(), limit: *limit }
            }
            Plan::Update { filter, set, pick } => {
                Plan::Update { filter: with(filter), set: self.renewed(set.clone(), &slots), pick: pick.clone() }
            }
            // The new record is stamped; an existing one is changed only within reach.
            Plan::Upsert { keys, guard, set } => {
                Plan::Upsert { keys: keys.clone(), guard: with(guard), set: self.renewed(set.clone(), &slots) }
            }
            Plan::Delete { filter, pick } => match (self.desc.soft_delete, slots.now) {
                (Some(mark), Some(now)) => {
                    let value = match mark {
                        SoftDelete::At(_) => Source::Arg { index: now, nullable: false },
                        SoftDelete::Is(_, value) => Source::Value(value()),
                    };
                    let set = touch(self.desc, vec![Assign { field: mark.field(), value: AssignValue::Set(value) }], now);
                    Plan::Update { filter: with(filter), set: self.renewed(set, &slots), pick: pick.clone() }
                }
                _ => Plan::Delete { filter: with(filter), pick: pick.clone() },
            },
        }
    }

    /// The arguments of the guard for a call, behind those of the statement.
    pub(super) fn arguments(&self, cx: &Cx, plan: &Plan, reach: Reach, route: &RouteGuard, owner: Vec<Value>, args: &mut Vec<Value>) {
        args.extend(owner);
        let slots = Slots::of(self, plan, reach, route, 0);
        args.extend(slots.now.map(|_| Value::Date(cx.now())));
        if slots.expiry.is_some()
            && let Some((_, value)) = layout::expiry(self.desc, cx.now())
        {
            args.push(value);
        }
    }

    fn conditions(&self, reach: Reach, route: &RouteGuard, slots: &Slots) -> Filter {
        let mut all = Filter::TRUE;
        if let Some(tenant) = self.desc.tenant {
            all = match reach {
                Reach::Caller => all.and(Filter::eq_arg(tenant.field, slots.owner)),
                Reach::NoTenant | Reach::Anonymous => all.and(Filter::cond(tenant.field, Op::Eq, Operand::One(Source::Value(Value::Null)))),
                Reach::System | Reach::Deleted | Reach::Followed => all,
            };
        }
        if reach.is_caller() {
            let first = slots.owner + usize::from(self.desc.tenant.is_some() && reach == Reach::Caller);
            for (n, scope) in route.scopes.iter().enumerate().filter(|_| slots.scoped) {
                all = all.and(Filter::eq_arg(self.desc.scope[*scope].field, first + n));
            }
        }
        if route.deleted {
            all = layout::deleted(self.desc).into_iter().fold(all, Filter::and);
        } else if reach != Reach::Deleted {
            all = layout::live(self.desc).into_iter().fold(all, Filter::and);
        }
        let all = slots.now.and_then(|now| layout::unexpired(self.desc, now)).into_iter().fold(all, Filter::and);
        match &self.behind {
            Some(behind) => all.and(behind.condition(self.desc, Asks { reach, reads: route.reads }, slots.behind, slots.now)),
            None => all,
        }
    }

    /// Every change of a record puts its expiry off.
    fn renewed(&self, mut set: Vec<Assign>, slots: &Slots) -> Vec<Assign> {
        if let (Some(index), Some(ttl)) = (slots.expiry, self.desc.ttl) {
            set.push(Assign { field: ttl.field, value: AssignValue::Set(Source::Arg { index, nullable: false }) });
        }
        set
    }

    /// Refuses values that mark a record as deleted: only a deletion writes them.
    ///
    /// # Errors
    /// `validation_failed` with `not_allowed`.
    pub(super) fn refuse_mark(&self, plan: &Plan, args: &[Value]) -> Result<()> {
        let Some(SoftDelete::Is(field, mark)) = self.desc.soft_delete else { return Ok(()) };
        let assigned = |set: &[Assign]| {
            let assign = set.iter().find(|a| a.field == field)?;
            match &assign.value {
                AssignValue::Set(Source::Arg { index, .. }) => args.get(*index).cloned(),
                AssignValue::Set(Source::Value(value)) => Some(value.clone()),
                _ => None,
            }
        };
        let written = match plan {
            Plan::Insert => args.get(field).cloned(),
            Plan::Upsert { set, .. } => args.get(field).filter(|new| **new == mark()).cloned().or_else(|| assigned(set)),
            Plan::Update { set, .. } => assigned(set),
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Delete { .. } => None,
        };
        if written.is_some_and(|value| value == mark()) {
            let wire = self.desc.fields[field].wire;
            return Err(Error::invalid(Problem::new(wire, "not_allowed", "marks deleted records: delete the record instead")));
        }
        Ok(())
    }

    /// Which expired records could stand in the way of a write: a plan that removes them. Its arguments are those of the
    /// write and, at `base`, the call's instant. It may name more than stand in the way; they are gone in any case.
    pub(super) fn eviction(&self, plan: &Plan, base: usize) -> Option<Plan> {
        let ttl = self.desc.ttl?;
        let value = |field: usize| match plan {
            Plan::Insert | Plan::Upsert { .. } => Some(Source::Arg { index: field, nullable: false }),
            Plan::Update { set, .. } => set.iter().find(|a| a.field == field).and_then(|a| match &a.value {
                AssignValue::Set(source) => Some(source.clone()),
                _ => None,
            }),
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Delete { .. } => None,
        };
        let equal = |field: usize| value(field).map(|source| Filter::cond(field, Op::Eq, Operand::One(source)));
        let primary = matches!(plan, Plan::Insert | Plan::Upsert { .. }).then(|| equal(self.desc.primary)).flatten();
        let uniques = self.desc.uniques.iter().filter_map(|unique| {
            let known: Vec<Filter> = unique.fields.iter().filter_map(|field| equal(*field)).collect();
            (!known.is_empty()).then_some(Filter::All(known))
        });
        let standing: Vec<Filter> = primary.into_iter().chain(uniques).collect();
        if standing.is_empty() {
            return None;
        }
        let now = Source::Arg { index: base, nullable: false };
        let expired = Filter::cond(ttl.field, Op::Lte, Operand::One(now));
        Some(Plan::Delete { filter: expired.and(Filter::Any(standing)), pick: None })
    }
}

/// Where the guard's arguments stand.
struct Slots {
    /// The tenant, if the reach has one, and the scopes behind it.
    owner: usize,
    scoped: bool,
    /// What conditions and gates compare with.
    behind: usize,
    now: Option<usize>,
    expiry: Option<usize>,
}

impl Slots {
    fn of(guard: &Guard, plan: &Plan, reach: Reach, route: &RouteGuard, base: usize) -> Self {
        let desc = guard.desc;
        let system = desc.tenant.is_none() && desc.scope.is_empty();
        let scoped = reach.is_caller() && !system;
        let tenant = usize::from(desc.tenant.is_some() && reach == Reach::Caller);
        let behind = base + tenant + if scoped { route.scopes.len() } else { 0 };
        let values = guard.behind.as_ref().filter(|_| reach.is_caller()).map_or(0, Behind::wants);
        let mut next = behind + values;
        let mut slot = |wanted: bool| {
            wanted.then(|| {
                next += 1;
                next - 1
            })
        };
        let (marks, changes, filters) = match plan {
            Plan::Insert => (false, false, false),
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. } => (false, false, true),
            Plan::Update { .. } | Plan::Upsert { .. } => (false, true, true),
            Plan::Delete { .. } => (desc.soft_delete.is_some(), desc.soft_delete.is_some(), true),
        };
        let instant = guard.behind.as_ref().is_some_and(|behind| behind.needs_now(reach));
        let now = slot(filters && (desc.ttl.is_some() || marks || instant));
        let expiry = slot(changes && desc.ttl.is_some_and(|ttl| ttl.after.is_some()));
        Self { owner: base, scoped, behind, now, expiry }
    }
}

/// A value of a new record, or the place for one.
pub(super) trait Held: From<Value> {
    /// The value, unless it is null or missing.
    fn held(&self) -> Option<Value>;
}

impl Held for Value {
    fn held(&self) -> Option<Value> {
        (!self.is_null()).then(|| self.clone())
    }
}

impl Held for Option<Value> {
    fn held(&self) -> Option<Value> {
        self.as_ref().and_then(Held::held)
    }
}

/// How many arguments a plan takes.
pub(crate) fn arity(desc: &EntityDesc, plan: &Plan) -> usize {
    let mut most = 0;
    let mut note = |source: &Source| {
        if let Source::Arg { index, .. } = source {
            most = most.max(index + 1);
        }
    };
    match plan {
        Plan::Insert => return desc.fields.len(),
        Plan::Select { filter, after, limit, .. } => {
            filter.sources(&mut note);
            limit.iter().for_each(&mut note);
            let slots: Vec<usize> = match after {
                None => Vec::new(),
                Some(After::Keys(keys)) => keys.iter().flatten().copied().collect(),
                Some(After::Count(slot)) => vec![*slot],
            };
            for index in slots {
                note(&Source::Arg { index, nullable: false });
            }
        }
        Plan::Related { filter, values, limit, .. } => {
            filter.sources(&mut note);
            note(&Source::Arg { index: *values, nullable: false });
            limit.iter().for_each(&mut note);
        }
        Plan::Aggregate { filter, compute, .. } => {
            filter.sources(&mut note);
            for compute in compute {
                compute.filter.sources(&mut note);
            }
        }
        Plan::Exists { filter } | Plan::Hold { filter } | Plan::Lock { filter, .. } | Plan::Delete { filter, .. } => {
            filter.sources(&mut note);
        }
        Plan::Update { filter, set, .. } | Plan::Upsert { guard: filter, set, .. } => {
            filter.sources(&mut note);
            for assign in set {
                assign.value.sources(&mut note);
            }
        }
    }
    if matches!(plan, Plan::Upsert { .. }) { most.max(desc.fields.len()) } else { most }
}

fn missing(known: bool) -> Error {
    if known { Error::forbidden() } else { Error::unauthorized() }
}
