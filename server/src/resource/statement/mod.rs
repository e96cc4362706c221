//! Prepares and runs every statement of an entity, of its routes and its operations.
//!
//! Rules for every statement are in [`Statements::prepare`] and [`Statements::execute`], so a kind of
//! operation cannot forget them: only this module runs statements. The most important rule is the
//! [`Restriction`].

mod restrict;
mod run;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

pub(super) use self::restrict::Restricted;
use super::audit::AuditLog;
use super::counter_backfill::CounterBackfill;
use super::prepared::{Change, Prepared, event};
use super::restriction::{Reach, Restriction, RouteRestriction};
use super::summaries::Summaries;
use crate::Result;
use crate::emitter::Emitter;
use crate::entity::EntityDesc;
use crate::store::{Plan, SqlDriver, Statement, Store};

/// The maximum number of stored statements per entity for shapes that requests choose (filters of
/// lists, fields of patches).
const SHAPES: usize = 512;

/// The address of a statement in memory, and the shape of the conditions added to it.
type LimitedKey = (usize, Box<[u8]>);

/// A statement under the conditions of a permission.
struct Limited {
    /// The original statement. It is kept alive so that its address is not reused.
    _of: Arc<Statement>,
    statement: Arc<Statement>,
}

/// The statements of one mounted entity.
pub(super) struct Statements {
    desc: &'static EntityDesc,
    store: Arc<dyn Store>,
    restriction: Option<Restriction>,
    shapes: RwLock<HashMap<Box<[u8]>, Prepared>>,
    /// The restriction on each route, with a number for each distinct restriction.
    routes: RwLock<HashMap<String, (u16, Arc<RouteRestriction>)>>,
    /// Statements under the conditions of a permission, by their original statement and the shape
    /// of the conditions.
    limited: RwLock<HashMap<LimitedKey, Limited>>,
    /// Set at start-up if the entity has event consumers. Without it, no events are recorded, and
    /// there is no overhead.
    emitter: OnceLock<Arc<Emitter>>,
    /// The audit log of the app; set at start-up if a route is audited.
    audit: OnceLock<AuditLog>,
    /// The counters in other entities that count these records. `None` if there are none.
    summaries: Option<Summaries>,
    /// The counters in these records, which count records of other entities.
    backfill: CounterBackfill,
}

impl Statements {
    pub(super) fn new(desc: &'static EntityDesc, store: Arc<dyn Store>) -> Result<Self> {
        Ok(Self {
            desc,
            summaries: Summaries::new(desc, &store)?,
            backfill: CounterBackfill::default(),
            store,
            restriction: Restriction::new(desc),
            shapes: RwLock::default(),
            routes: RwLock::default(),
            limited: RwLock::default(),
            emitter: OnceLock::new(),
            audit: OnceLock::new(),
        })
    }

    /// The name of the store: `memory`, `sqlite` and so on.
    pub(super) fn store_name(&self) -> &'static str {
        self.store.name()
    }

    /// The store's own handle.
    pub(super) fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.store.native()
    }

    /// The driver for SQL of custom operations.
    pub(super) fn sql(&self) -> Result<Arc<dyn SqlDriver>> {
        self.store.sql().ok_or_else(|| {
            crate::Error::internal(format!(
                "the store of `{}` does not run SQL",
                self.desc.name
            ))
        })
    }

    /// Whether both entities are in one store.
    pub(super) fn shares_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Whether the store computes a number and writes it in one statement. `last` is explained at
    /// [`Store::computes`].
    pub(super) fn computes(&self, last: bool) -> bool {
        self.store.computes(last)
    }

    /// Whether callers can see different records.
    pub(super) fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// Prepares a statement of a route: `get`, `list` and so on, or the name of an operation.
    pub(super) fn prepare(&self, route: &'static str, plan: Plan) -> Result<Prepared> {
        let (event, change) = (event(route, &plan), Change::of(self.desc, &plan));
        let Some(restriction) = &self.restriction else {
            return Ok(Prepared {
                statement: self.store.prepare(self.desc, plan)?,
                restricted: None,
                event,
                change,
            });
        };
        let (_, route) = self.route(restriction, route);
        let base = plan.arity(self.desc);
        let statement = self.store.prepare(
            self.desc,
            restriction.plan(&plan, Reach::Caller, &route, base),
        )?;
        let restricted = Restricted {
            plan,
            route,
            base,
            others: Default::default(),
            eviction: OnceLock::new(),
        };
        Ok(Prepared {
            statement,
            restricted: Some(Arc::new(restricted)),
            event,
            change,
        })
    }

    /// A statement without restriction, for work of the app itself on records that no caller sees
    /// any more. It emits the events of a route, or no events.
    pub(super) fn unrestricted(&self, event: Option<&'static str>, plan: Plan) -> Result<Prepared> {
        // A statement without events only reads, so it needs no checks of keys and dependents.
        let change = if event.is_some() {
            Change::of(self.desc, &plan)
        } else {
            Change::None
        };
        Ok(Prepared {
            statement: self.store.prepare(self.desc, plan)?,
            restricted: None,
            event,
            change,
        })
    }

    /// Turns on events: from now on, changes of records emit events. A second call adapts them to
    /// consumers that were added.
    pub(super) fn emit(&self, emitter: Arc<Emitter>) {
        if let Some(present) = self.emitter.get() {
            present.replace(&emitter);
        } else {
            // Nothing else sets the emitter: start-up has one task.
            let _ = self.emitter.set(emitter);
        }
    }

    /// Sets the audit log, for changes by audited calls. Only the first call has an effect.
    pub(super) fn audited_by(&self, log: &AuditLog) {
        self.audit.get_or_init(|| log.clone());
    }

    /// Whether changes of records emit events.
    pub(super) fn emits(&self) -> bool {
        self.emitter.get().is_some()
    }

    /// The statement of a shape that requests choose, prepared on first use.
    pub(super) fn shape(
        &self,
        route: &'static str,
        key: &[u8],
        plan: impl FnOnce() -> Plan,
    ) -> Result<Prepared> {
        let Some(restriction) = &self.restriction else {
            return self.shaped(route, key, plan);
        };
        // Routes that differ in their restriction share no statement. No shape begins with a zero.
        match self.route(restriction, route).0.to_be_bytes() {
            [0, 0] => self.shaped(route, key, plan),
            [high, low] => self.shaped(route, &[&[0, high, low], key].concat(), plan),
        }
    }

    fn shaped(
        &self,
        route: &'static str,
        key: &[u8],
        plan: impl FnOnce() -> Plan,
    ) -> Result<Prepared> {
        if let Some(prepared) = self.shapes.read().get(key) {
            // Routes may share a statement; the events belong to the route that runs it.
            return Ok(Prepared {
                event: prepared.event.map(|_| route),
                ..prepared.clone()
            });
        }
        let prepared = self.prepare(route, plan())?;
        let mut shapes = self.shapes.write();
        if shapes.len() >= SHAPES {
            // Clients choose shapes, so their number is limited. If there are too many, all are
            // dropped; common ones are soon prepared again.
            shapes.clear();
        }
        shapes.insert(key.into(), prepared.clone());
        Ok(prepared)
    }

    /// The counters in other entities that count these records.
    pub(super) fn summaries(&self) -> Option<&Summaries> {
        self.summaries.as_ref()
    }

    /// The counters in these records, which count records of other entities.
    pub(super) fn backfill(&self) -> &CounterBackfill {
        &self.backfill
    }

    /// The store of the records.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Whether a transaction of the store blocks all other writes.
    pub(super) fn alone(&self) -> bool {
        self.store.alone()
    }

    /// The entity.
    pub(super) fn desc(&self) -> &'static EntityDesc {
        self.desc
    }

    /// A statement that replaces or accompanies another one; it is built once. Its cache key has
    /// one byte. The shape of a permission's conditions is never one byte long, so the keys differ.
    pub(super) fn derived(
        &self,
        of: &Arc<Statement>,
        kind: u8,
        plan: impl FnOnce() -> Plan,
    ) -> Result<Arc<Statement>> {
        self.derived_with_shape(of, Box::from([kind]), plan)
    }

    fn derived_with_shape(
        &self,
        of: &Arc<Statement>,
        shape: Box<[u8]>,
        plan: impl FnOnce() -> Plan,
    ) -> Result<Arc<Statement>> {
        let key = (Arc::as_ptr(of) as usize, shape);
        if let Some(limited) = self.limited.read().get(&key) {
            return Ok(Arc::clone(&limited.statement));
        }
        let prepared = self.store.prepare(of.entity, plan())?;
        let mut limited = self.limited.write();
        if limited.len() >= SHAPES {
            limited.clear();
        }
        limited.insert(
            key,
            Limited {
                _of: Arc::clone(of),
                statement: Arc::clone(&prepared),
            },
        );
        Ok(prepared)
    }
}
