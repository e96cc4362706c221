//! Checks in memory whether a caller may see the record of an event.
//!
//! A plugin that sends events to callers must send each event only to callers who may read its
//! record. The conditions are those of the [restriction](super::restriction) and of the permission
//! of the read route; they are evaluated in memory. Callers with equal context values are checked
//! once.

mod state;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value as Json};

pub use self::state::EventState;
use self::state::{text_of, value_of};
use super::gate::{Admission, Viewer};
use super::restriction::{Included, Reach, RouteRestriction};
use super::{Prepared, Table};
use crate::cx::CallConditions;
use crate::entity::{EntityDesc, FieldDesc, Gate, ScopeFrom};
use crate::filter::eval::matches;
use crate::filter::{CtxPath, Filter};
use crate::store::{Plan, Rows};
use crate::{Cx, Error, Result, Timestamp, Value};

/// The read route whose conditions apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventScope {
    /// The conditions of `get`: callers who may read the record by its key.
    Record,
    /// The conditions of `list`: callers whose list contains the record.
    Collection,
}

/// The conditions under which callers see records of an entity. Create it once, at start-up.
///
/// A gate refers to another record, which is not in memory. A plugin that has checked that other
/// record for a caller names the field of the gate as *settled*; see [`EventGuard::settles`]. If a
/// gate is not settled, no caller sees the record.
///
/// ```
/// # use linchpin::prelude::*;
/// use linchpin::resource::{EventGuard, EventScope};
/// use linchpin::{Adapters, EntityEvent};
///
/// #[entity(visible(published || author_id == ctx(actor.id)), routes(auth = none))]
/// #[derive(Clone, Debug)]
/// pub struct Post {
///     #[field(primary)]
///     pub id: String,
///     pub author_id: String,
///     pub published: bool,
/// }
///
/// /// Whether a caller may get the event of a change of a post.
/// fn may_receive(adapters: &Adapters, cx: &Cx, event: &EntityEvent) -> Result<bool> {
///     let Some(posts) = adapters.table(Post::DESC.storage_name) else { return Ok(false) };
///     // A plugin makes the guard once, and a tuple once for each caller.
///     let guard = EventGuard::new(posts, EventScope::Record, &[])?;
///     let tuple = guard.tuple(cx)?;
///     let record = event.after.as_ref().and_then(|record| record.as_object());
///     let state = record.and_then(|record| guard.state(record));
///     Ok(state.is_some_and(|state| guard.admits(&tuple, &state, event.at)))
/// }
/// ```
pub struct EventGuard {
    table: Arc<Table>,
    scope: EventScope,
    /// Positions of the fields of the gates that are settled.
    settled: Box<[usize]>,
    /// The conditions by [`Reach`].
    conditions: [OnceLock<Conditions>; 7],
    /// The fields that the conditions read.
    reads: Box<[usize]>,
    /// Positions of the tenant and of the scopes that come from the context.
    owners: Box<[usize]>,
    /// The check of the other record, for each gate of the entity.
    settling: Box<[OnceLock<Settling>]>,
}

/// The conditions for a reach. Their arguments are the values of a caller, and then the instant.
struct Conditions {
    filter: Filter,
    now: Option<usize>,
}

/// The check of the record that a gate refers to.
struct Settling {
    target: Arc<Table>,
    statement: Prepared,
    admission: Admission,
}

/// A gate of an entity: its records are visible only through another record.
#[derive(Clone, Copy, Debug)]
pub struct EventGate {
    /// The name of the field with the key of the other record.
    pub field: &'static str,
    /// The entity of the other record.
    pub target: &'static EntityDesc,
    /// The action that the caller must be allowed on the other record, in addition to its
    /// visibility.
    pub action: Option<&'static str>,
}

/// The values of a caller that the conditions read. Callers with equal tuples see the same records.
#[derive(Clone)]
pub struct EventTuple {
    /// All values as bytes, for comparisons.
    key: Box<[u8]>,
    reach: Reach,
    values: Box<[Value]>,
    only: Option<Arc<CallConditions>>,
}

impl PartialEq for EventTuple {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for EventTuple {}

impl Hash for EventTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Debug for EventTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be personal data.
        f.debug_struct("EventTuple").finish_non_exhaustive()
    }
}

impl fmt::Debug for EventGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventGuard")
            .field("entity", &self.table.desc.name)
            .field("scope", &self.scope)
            .field("settled", &self.settled)
            .finish_non_exhaustive()
    }
}

impl EventScope {
    /// The statement name under which these conditions are registered. Conditions on path
    /// parameters are not among them.
    fn route(self) -> &'static str {
        match self {
            Self::Record => Included::Get.name(),
            Self::Collection => Included::List.name(),
        }
    }
}

impl EventGuard {
    /// The gates of an entity, in the order of their declaration.
    pub fn gates(desc: &'static EntityDesc) -> impl Iterator<Item = EventGate> {
        desc.gates.iter().map(|gate| EventGate {
            field: desc.fields[gate.field].name,
            target: gate.target,
            action: gate.action,
        })
    }

    /// Creates the guard of an entity. `settled` are the names of fields of gates whose records the
    /// plugin checks itself.
    ///
    /// # Errors
    /// `internal` if a name is not a field of a gate, or if the permission of the route depends on
    /// another record.
    pub fn new(table: &Arc<Table>, scope: EventScope, settled: &[&str]) -> Result<Self> {
        let desc = table.desc;
        let gate = |name: &&str| {
            let found = desc
                .gates
                .iter()
                .find(|g| desc.fields[g.field].name == *name);
            found.map(|gate| gate.field).ok_or_else(|| {
                Error::internal(format!("`{}` has no gate with field `{name}`", desc.name))
            })
        };
        let settled = settled.iter().map(gate).collect::<Result<Box<[usize]>>>()?;
        let policy = match scope {
            EventScope::Record => desc.routes[2].or(desc.defaults),
            EventScope::Collection => desc.list_policy(),
        };
        let permission = policy.permission;
        if permission.is_some_and(|p| p.resource.is_some() || p.rank.is_some()) {
            let text = format!(
                "the permission to read `{}` depends on a value of each record: events cannot be \
                 judged in memory",
                desc.name
            );
            return Err(Error::internal(text));
        }
        let owner = permission.and_then(|permission| permission.owner_field);
        let mut guard = Self {
            table: Arc::clone(table),
            scope,
            settled,
            conditions: Default::default(),
            reads: Box::default(),
            owners: Box::default(),
            settling: desc.gates.iter().map(|_| OnceLock::new()).collect(),
        };
        guard.owners = guard.partition();
        let mut reads: Vec<usize> = guard.owners.to_vec();
        reads.extend(
            desc.fields
                .iter()
                .position(|field| Some(field.name) == owner),
        );
        for reach in [Reach::Caller, Reach::NoTenant, Reach::Anonymous] {
            fields_of(&guard.conditions(reach).filter, &mut reads);
        }
        reads.sort_unstable();
        reads.dedup();
        guard.reads = reads.into();
        Ok(guard)
    }

    /// The tenant and the scopes that come from the context.
    fn partition(&self) -> Box<[usize]> {
        let desc = self.table.desc;
        let name = match self.scope {
            EventScope::Record => "get",
            EventScope::Collection => "list",
        };
        let scopes = desc
            .scope
            .iter()
            .filter(|scope| matches!(scope.from, ScopeFrom::Ctx(_)) && scope.holds_on(name));
        let tenant = desc.tenant.iter().map(|tenant| tenant.field);
        tenant.chain(scopes.map(|scope| scope.field)).collect()
    }

    /// The fields that an event's state must have.
    pub fn fields(&self) -> impl Iterator<Item = &'static FieldDesc> {
        self.reads
            .iter()
            .map(|field| &self.table.desc.fields[*field])
    }

    /// The values of the context that the conditions read, without those of settled gates. The id
    /// of the actor is among them if the permission admits owners.
    pub fn context(&self) -> Vec<CtxPath> {
        let desc = self.table.desc;
        let mut out: Vec<CtxPath> = super::gate::context(desc);
        out.extend(desc.tenant.map(|_| CtxPath::TenantId));
        out.extend(desc.scope.iter().filter_map(|scope| match scope.from {
            ScopeFrom::Ctx(path) => Some(path),
            ScopeFrom::Path(_) => None,
        }));
        out
    }

    fn route(&self) -> Option<Arc<RouteRestriction>> {
        let statements = self.table.statements();
        let restriction = statements.restriction()?;
        Some(statements.route(restriction, self.scope.route()).1)
    }

    fn conditions(&self, reach: Reach) -> &Conditions {
        self.conditions[reach as usize].get_or_init(|| {
            let restriction = self.table.statements().restriction();
            match restriction.zip(self.route()) {
                None => Conditions {
                    filter: Filter::TRUE,
                    now: None,
                },
                Some((restriction, route)) => {
                    let (filter, now) = restriction.in_memory(reach, &route);
                    Conditions {
                        filter: self.without_settled(filter),
                        now,
                    }
                }
            }
        })
    }

    /// The conditions without those of settled gates.
    fn without_settled(&self, filter: Filter) -> Filter {
        let all = |list: Vec<Filter>| {
            list.into_iter()
                .map(|one| self.without_settled(one))
                .collect()
        };
        match filter {
            Filter::All(list) => Filter::All(all(list)),
            Filter::Any(list) => Filter::Any(all(list)),
            Filter::Linked(linked) if self.is_settled(linked.field, linked.of) => Filter::TRUE,
            other => other,
        }
    }

    fn is_settled(&self, field: usize, of: &EntityDesc) -> bool {
        let is = |gate: &Gate| gate.field == field && gate.target.storage_name == of.storage_name;
        self.settled.contains(&field) && self.table.desc.gates.iter().any(is)
    }

    /// The tuple of a caller. `cx` comes from [`RouteCaller::admit`](crate::http::RouteCaller::admit)
    /// for the read route of the entity, so that it has the context values of the caller and is
    /// limited by the permission of the route.
    ///
    /// # Errors
    /// 401 or 403 if the caller has no value for the tenant or a scope: such a caller sees no
    /// record.
    pub fn tuple(&self, cx: &Cx) -> Result<EventTuple> {
        let statements = self.table.statements();
        let (mut key, mut values) = (Vec::new(), Vec::new());
        statements.fingerprint(cx, self.scope.route(), &mut key)?;
        let reach = match statements.restriction().zip(self.route()) {
            None => Reach::Caller,
            Some((restriction, route)) => restriction.reach(cx, &route, &mut values)?,
        };
        Ok(EventTuple {
            key: key.into(),
            reach,
            values: values.into(),
            only: cx.only(self.table.desc).cloned(),
        })
    }

    /// Whether a text is a key in the form of `record_id` in events. Routes also accept other
    /// spellings of keys that have a canonical form, for example in upper case.
    pub fn is_key(&self, text: &str) -> bool {
        let key = self.table.parse_id(text);
        key.as_ref().and_then(text_of).as_deref() == Some(text)
    }

    /// Reads the values of a record that the conditions need, from an object with wire names such
    /// as [`EntityEvent::after`](crate::EntityEvent::after). `None` if one of them is missing or
    /// has another type: then no caller may see the record.
    pub fn state(&self, record: &Map<String, Json>) -> Option<EventState> {
        let value = |field: &usize| {
            let desc = &self.table.desc.fields[*field];
            Some((*field, value_of(desc.kind, record.get(desc.wire)?)?))
        };
        self.reads
            .iter()
            .map(value)
            .collect::<Option<_>>()
            .map(EventState)
    }

    /// Whether callers with this tuple see the record at this instant.
    pub fn admits(&self, tuple: &EventTuple, state: &EventState, now: Timestamp) -> bool {
        if let Some(only) = &tuple.only
            && !only
                .conditions()
                .iter()
                .all(|(field, value)| state.get(*field) == Some(value))
        {
            return false;
        }
        let conditions = self.conditions(tuple.reach);
        match conditions.now {
            None => matches(&conditions.filter, state, &tuple.values),
            Some(at) => {
                let mut args = tuple.values.to_vec();
                args.resize(at, Value::Null);
                args.push(Value::Date(now));
                matches(&conditions.filter, state, &args)
            }
        }
    }

    /// The partition of a record: the texts of its tenant and of the scopes that come from the
    /// context. `None` stands for null.
    pub fn owners(&self, state: &EventState) -> Vec<Option<String>> {
        let text = |field: &usize| state.get(*field).and_then(text_of);
        self.owners.iter().map(text).collect()
    }

    /// The partition of the records that a caller sees, as [`EventGuard::owners`] returns it.
    ///
    /// # Errors
    /// As [`EventGuard::tuple`].
    pub fn owners_of_caller(&self, cx: &Cx) -> Result<Vec<Option<String>>> {
        let own = self.table.statements().owners(cx, self.scope.route())?;
        let value = |field: &usize| own.iter().find(|(at, _)| at == field);
        let text = |field: &usize| value(field).and_then(|(_, value)| text_of(value));
        Ok(self.owners.iter().map(text).collect())
    }

    /// Whether a caller passes the gate on `field` of this entity, for the other record with the
    /// key `key` (as text): that record is visible, and the caller may perform the action of the
    /// gate on it. Reads the store.
    ///
    /// # Errors
    /// `internal` if there is no such gate; otherwise the errors of the store.
    pub async fn settles(&self, cx: &Cx, field: &str, key: &str) -> Result<bool> {
        let desc = self.table.desc;
        let found = desc
            .gates
            .iter()
            .position(|g| desc.fields[g.field].name == field);
        let Some(at) = found else {
            let text = format!("`{}` has no gate with field `{field}`", desc.name);
            return Err(Error::internal(text));
        };
        let settling = match self.settling[at].get() {
            Some(settling) => settling,
            None => {
                let settling = self.settling_of(&desc.gates[at])?;
                self.settling[at].get_or_init(|| settling)
            }
        };
        let Some(key) = settling.target.parse_id(key) else {
            return Ok(false);
        };
        let mut args = vec![key];
        settling.admission.arguments(cx, &mut args);
        // The permission for this entity does not apply to the entity of the other record.
        let cx = cx.unlimited();
        let statements = settling.target.statements();
        let found = statements
            .execute(&cx, &settling.statement, args, Rows::count())
            .await;
        match found {
            Ok(rows) => Ok(rows.count > 0),
            Err(error) if matches!(error.code().status(), 401 | 403) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn settling_of(&self, gate: &'static Gate) -> Result<Settling> {
        let target = self.table.sibling(gate.target)?;
        let viewer = Viewer {
            reach: Reach::Caller,
            reads: true,
        };
        let (admission, further) = Admission::of(gate, viewer, 1);
        let filter = Filter::eq_arg(target.desc.primary, 0).and(further);
        let plan = Plan::Exists { filter };
        let statement = target.statements().prepare(Included::Get.name(), plan)?;
        Ok(Settling {
            target,
            statement,
            admission,
        })
    }
}

/// Adds the fields that a filter reads.
fn fields_of(filter: &Filter, out: &mut Vec<usize>) {
    match filter {
        Filter::All(list) | Filter::Any(list) => {
            for filter in list {
                fields_of(filter, out);
            }
        }
        Filter::Cond { field, .. } | Filter::Item { field, .. } => out.push(*field),
        // The other record is not in memory, so the condition is false and reads no field.
        Filter::Linked(_) | Filter::Given(_) => {}
    }
}
