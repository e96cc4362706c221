//! One mounted entity: its description, its statements, its planned operations.

mod records;
mod setup;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::RwLock;

use super::extensions::Extensions;
use super::integrity::{Dependent, References};
use super::prepared::{Change, Prepared};
use super::statement::Statements;
use super::{CursorKey, Executor, computed, declared};
use crate::clock::Clock;
use crate::entity::{DefaultDesc, EntityDesc};
use crate::filter::{Filter, Op, Operand, Source};
use crate::permission::Evaluator;
use crate::store::{Plan, Projection, Reply, Row, Rows, SqlDriver, Store};
use crate::validate::Validator;
use crate::{Cx, Error, Result, Value};

/// One mounted entity: its description, its statements and its planned operations.
pub struct Table {
    /// The entity.
    pub desc: &'static EntityDesc,
    /// The validation rules of the entity.
    pub validator: Validator,
    /// All readable fields.
    pub projection: Arc<Projection>,
    pub(super) fixed: Fixed,
    statements: Statements,
    /// Whether a default reads a value of the context.
    ctx_defaults: bool,
    /// Whether the entity has computed fields.
    pub(super) computes: bool,
    cursors: CursorKey,
    operations: RwLock<HashMap<&'static str, Arc<dyn Executor>>>,
    /// The permission evaluator; set at start-up.
    evaluator: OnceLock<Arc<dyn Evaluator>>,
    /// All tables of the app. Weak, because the tables refer to each other.
    siblings: OnceLock<Weak<HashMap<&'static str, Arc<Table>>>>,
    /// The foreign keys of other entities that refer to records of this entity, with their
    /// `on_delete` rules.
    dependents: OnceLock<Vec<Dependent>>,
    /// The entity's foreign keys that must refer to visible records.
    pub(super) references: References,
    /// The search index of the entity, as soon as it is open.
    pub(super) search: OnceLock<Arc<crate::search::Index>>,
    /// Values that start-up hooks have stored for handlers.
    provided: OnceLock<Extensions>,
    /// The clock of the app; set at start-up.
    clock: OnceLock<Clock>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("entity", &self.desc.name)
            .field("store", &self.statements.store_name())
            .finish_non_exhaustive()
    }
}

/// The statements that every entity has.
pub(super) struct Fixed {
    pub(super) insert: Prepared,
    pub(super) get: Prepared,
    pub(super) delete: Prepared,
    pub(super) delete_version: Option<Prepared>,
    /// Removes a record in any state.
    pub(super) purge: Prepared,
}

impl Fixed {
    fn new(desc: &'static EntityDesc, statements: &Statements) -> Result<Self> {
        let by_id = || Filter::eq_arg(desc.primary, 0);
        let delete = |filter| statements.prepare("delete", Plan::Delete { filter, pick: None });
        Ok(Self {
            insert: statements.prepare("create", Plan::Insert)?,
            get: statements.prepare("get", by_key(desc))?,
            delete: delete(by_id())?,
            purge: statements.unrestricted(
                Some("delete"),
                Plan::Delete {
                    filter: by_id(),
                    pick: None,
                },
            )?,
            delete_version: desc
                .version
                .map(|version| delete(by_id().and(Filter::eq_arg(version.field, 1))))
                .transpose()?,
        })
    }
}

fn by_key(desc: &EntityDesc) -> Plan {
    Plan::Select {
        filter: Filter::eq_arg(desc.primary, 0),
        order: Vec::new(),
        after: None,
        limit: None,
    }
}

impl Table {
    /// Mounts an entity on a store: prepares its fixed statements.
    ///
    /// # Errors
    /// When a rule or a statement is refused.
    pub fn new(
        desc: &'static EntityDesc,
        store: Arc<dyn Store>,
        cursors: CursorKey,
    ) -> Result<Self> {
        let statements = Statements::new(desc, store)?;
        let validator = Validator::new(desc)?;
        declared::defaults(desc, &validator)?;
        Ok(Self {
            desc,
            validator,
            projection: Arc::new(Projection::readable(desc)),
            cursors,
            fixed: Fixed::new(desc, &statements)?,
            statements,
            computes: desc.fields.iter().any(|f| f.computed.is_some()),
            ctx_defaults: desc
                .fields
                .iter()
                .any(|f| matches!(f.default, DefaultDesc::Ctx(_))),
            operations: RwLock::default(),
            evaluator: OnceLock::new(),
            siblings: OnceLock::new(),
            dependents: OnceLock::new(),
            references: References::new(desc),
            search: OnceLock::new(),
            provided: OnceLock::new(),
            clock: OnceLock::new(),
        })
    }

    /// The table of another entity of the app. Its own restriction applies to its statements.
    ///
    /// # Errors
    /// `internal` when no package of the app lists the entity, or the app has been dropped.
    pub fn sibling(&self, entity: &'static EntityDesc) -> Result<Arc<Self>> {
        let tables = self.siblings.get().and_then(Weak::upgrade);
        let found = tables
            .as_ref()
            .and_then(|tables| tables.get(entity.storage_name))
            .map(Arc::clone);
        found.ok_or_else(|| {
            let (own, other) = (self.desc.name, entity.name);
            Error::internal(format!(
                "`{own}` works with `{other}`, which is in no package of this app"
            ))
        })
    }

    /// The foreign keys of other entities that refer to records of this entity.
    pub(super) fn dependents(&self) -> &[Dependent] {
        self.dependents.get().map_or(&[], Vec::as_slice)
    }

    /// Whether the entity has counters, which change without a change of the version.
    pub(crate) fn has_counters(&self) -> bool {
        self.statements.backfill().has_counters()
    }

    /// Whether a field is a counter.
    pub(super) fn is_counter(&self, field: usize) -> bool {
        self.statements.backfill().is_counter(field)
    }

    /// Whether records that refer to a record may prevent its deletion, directly or through others.
    pub(crate) fn deletion_may_be_refused(&self) -> bool {
        self.dependents()
            .iter()
            .any(Dependent::may_prevent_deletion)
    }

    /// The statements of the entity, without the checks of foreign keys and dependents.
    pub(super) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// A value that a start-up hook has stored for handlers.
    ///
    /// # Errors
    /// `internal` when no hook has stored a `T`.
    pub(crate) fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.provided.get().cloned().unwrap_or_default().get()
    }

    /// Whether two tables share a store, so that one transaction can change both.
    pub fn shares_store(&self, other: &Self) -> bool {
        self.statements.shares_store(&other.statements)
    }

    /// Whether the store computes a number and writes it to a field in one statement. `last` is
    /// explained at [`Store::computes`](crate::store::Store::computes).
    pub(crate) fn computes(&self, last: bool, field: usize) -> bool {
        // Computed fields of the record may depend on the number.
        let feeds_computed_field =
            self.computes && !computed::affected(self.desc, |written| written == field).is_empty();
        !feeds_computed_field && self.statements.computes(last)
    }

    /// The call at the current time of the app's clock, unless its instant is fixed.
    pub(crate) fn at_present<'a>(&self, cx: &'a Cx) -> Cow<'a, Cx> {
        self.clock
            .get()
            .map_or(Cow::Borrowed(cx), |clock| cx.by_clock(clock))
    }

    /// The permission evaluator.
    pub(crate) fn evaluator(&self) -> Option<Arc<dyn Evaluator>> {
        self.evaluator.get().map(Arc::clone)
    }

    /// The condition for the record with a key.
    pub(crate) fn by_id(&self, id: Value) -> Filter {
        Filter::cond(self.desc.primary, Op::Eq, Operand::One(Source::Value(id)))
    }

    /// The name of the store: `memory`, `sqlite` and so on.
    pub(crate) fn store_name(&self) -> &'static str {
        self.statements.store_name()
    }

    /// The handle by which handlers of custom operations use the store.
    pub(crate) fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.statements.native()
    }

    pub(crate) fn sql(&self) -> Result<Arc<dyn SqlDriver>> {
        self.statements.sql()
    }

    /// The restriction of a call on a route, as a condition with its values.
    ///
    /// # Errors
    /// As [`Table::admit`].
    pub(crate) fn condition(&self, cx: &Cx, route: &str) -> Result<Filter> {
        self.statements.condition(cx, route)
    }

    /// Whether the records that a call reads or writes depend on the caller.
    pub fn is_restricted(&self) -> bool {
        self.statements.is_restricted() || self.ctx_defaults
    }

    /// Whether a caller has the values that a route needs. Checked before the body is read.
    ///
    /// # Errors
    /// 401 or 403 when the caller lacks a value for the tenant, a scope or a default.
    pub fn admit(&self, cx: &Cx, route: &str) -> Result<()> {
        if self.statements.is_restricted() {
            self.statements.admit(cx, route)?;
        }
        if self.ctx_defaults && route == "create" {
            for field in self.desc.fields {
                if let DefaultDesc::Ctx(path) = field.default {
                    super::write::ctx_default(cx, path, field.optional)?;
                }
            }
        }
        Ok(())
    }

    /// Writes tenant, scopes and expiry of a new record. Replaces given values; for the application
    /// itself, it keeps given tenants and scopes that [`Cx::within`] does not set.
    ///
    /// # Errors
    /// As [`Table::admit`].
    pub fn stamp(&self, cx: &Cx, route: &str, values: &mut [Option<Value>]) -> Result<()> {
        self.statements.stamp(cx, route, values)
    }

    /// Appends the values of the caller that all pages of a cursor share.
    pub(super) fn fingerprint(&self, cx: &Cx, route: &str, out: &mut Vec<u8>) -> Result<()> {
        self.statements.fingerprint(cx, route, out)
    }

    /// Tenant and scopes of a call on a route: fields and values.
    pub(super) fn owners(&self, cx: &Cx, route: &str) -> Result<Vec<(usize, Value)>> {
        self.statements.owners(cx, route)
    }

    /// A statement without restriction.
    pub(super) fn unrestricted(&self, plan: Plan) -> Result<Prepared> {
        self.statements.unrestricted(None, plan)
    }

    /// Prepares a statement of a route: `get`, `list` and so on, or the name of an operation.
    ///
    /// # Errors
    /// When the store refuses the plan.
    pub fn prepare(&self, route: &'static str, plan: Plan) -> Result<Prepared> {
        self.statements.prepare(route, plan)
    }

    /// The statement of a shape that requests choose, prepared on first use.
    ///
    /// # Errors
    /// When the store refuses the plan.
    pub fn shape(
        &self,
        route: &'static str,
        key: &[u8],
        plan: impl FnOnce() -> Plan,
    ) -> Result<Prepared> {
        self.statements.shape(route, key, plan)
    }

    /// A statement without restriction that removes expired records.
    pub(super) fn expiring(&self, plan: Plan) -> Result<Prepared> {
        self.statements
            .unrestricted(Some(crate::emitter::EXPIRED), plan)
    }

    /// Whether changes of records emit events.
    pub(crate) fn emits(&self) -> bool {
        self.statements.emits()
    }

    /// Runs a statement on the records that the call may read or change. `args` fill the argument
    /// slots of its plan.
    ///
    /// A written foreign key must refer to a visible record, and a deletion follows the `on_delete`
    /// rules of its dependents, in one transaction.
    ///
    /// # Errors
    /// The errors of the store; 401 or 403 if the caller lacks a tenant or scope;
    /// `validation_failed` with `reference` for a key without a visible record; `conflict` with
    /// `referenced` for a record that others refer to.
    pub fn execute<'a>(
        &'a self,
        cx: &Cx,
        prepared: &'a Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        match prepared.change() {
            Change::Keys(_) => {
                Reply::Later(Box::pin(self.referring(cx.clone(), prepared, args, rows)))
            }
            Change::Removes if !self.dependents().is_empty() => {
                Reply::Later(Box::pin(self.deleting(cx.clone(), prepared, args, rows)))
            }
            Change::None | Change::Removes => self.statements.execute(cx, prepared, args, rows),
        }
    }

    /// The key that encrypts the cursors of this entity.
    pub(super) fn cursors(&self) -> &CursorKey {
        &self.cursors
    }
}

/// Borrowed values in field order, as a row.
pub(crate) struct Borrowed<'a>(pub &'a [Value]);

impl Row for Borrowed<'_> {
    fn value(&self, field: usize) -> crate::ValueRef<'_> {
        self.0.value(field)
    }
}
