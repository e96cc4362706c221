//! Conditional writes: the assignments and the condition, prepared once per set of given
//! parameters.
//!
//! Every kind of operation that changes records with one UPDATE uses this module.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::bind::{self, Slots};
use super::{AssignSpec, OpSpec, ParamSpec};
use crate::filter::{Filter, Source, SourceSpec};
use crate::resource::{Call, Prepared, Table};
use crate::store::{Assign, AssignValue, Compute, Function, Pick, Plan};
use crate::{Error, Result, Value};

/// The maximum number of statements stored per operation, because the client chooses which
/// parameters to omit.
const VARIANTS: usize = 256;

/// A planned write.
pub(crate) struct Write {
    spec: &'static OpSpec,
    filter: Filter,
    /// Whether matching records are removed; then nothing is assigned.
    removes: bool,
    /// Whether an omitted parameter drops its conditions.
    narrows: bool,
    fixed: Vec<Assign>,
    set: &'static [AssignSpec],
    pick: Option<Pick>,
    variants: RwLock<HashMap<Shape, Arc<Variant>>>,
}

/// The shape of a call: the omitted assignments, one bit each, and whether a version is expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Shape {
    absent: [u64; 4],
    /// Parameters whose conditions are dropped. Only some batches declare such parameters;
    /// otherwise the list is empty and needs no allocation.
    missing: Vec<usize>,
    versioned: bool,
}

/// The statement of one shape.
pub(crate) struct Variant {
    pub(crate) statement: Prepared,
    slots: Slots,
}

impl Variant {
    /// The values of the statement for a call.
    ///
    /// # Errors
    /// 401 or 403 when a context value is null.
    pub(crate) fn values(&self, call: &Call<'_>, version: Option<i64>) -> Result<Vec<Value>> {
        let mut args = self.slots.values(call.cx, &call.args)?;
        args.extend(version.map(Value::Int));
        Ok(args)
    }
}

impl Write {
    /// Plans a write of `fixed` and `set` to the records that match `filter`. Assignments of `set`
    /// with an omitted parameter are skipped.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn new(
        spec: &'static OpSpec,
        table: &Table,
        filter: Filter,
        fixed: Vec<Assign>,
        set: &'static [AssignSpec],
    ) -> Result<Self> {
        Self {
            spec,
            filter,
            removes: false,
            narrows: false,
            fixed,
            set,
            pick: None,
            variants: RwLock::default(),
        }
        .planned(table)
    }

    /// Plans a write of `set` to all records that match `filter`, or to the first of them.
    /// Conditions with an omitted parameter are dropped.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn many(
        spec: &'static OpSpec,
        table: &Table,
        filter: Filter,
        set: &'static [AssignSpec],
        pick: Option<Pick>,
    ) -> Result<Self> {
        let (fixed, variants) = (Vec::new(), RwLock::default());
        Self {
            spec,
            filter,
            removes: false,
            narrows: true,
            fixed,
            set,
            pick,
            variants,
        }
        .planned(table)
    }

    /// Like [`Write::many`], but removes the records.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn remove(spec: &'static OpSpec, table: &Table, filter: Filter) -> Result<Self> {
        let (fixed, variants) = (Vec::new(), RwLock::default());
        Self {
            spec,
            filter,
            removes: true,
            narrows: true,
            fixed,
            set: &[],
            pick: None,
            variants,
        }
        .planned(table)
    }

    /// Also prepares the statement of a call with all parameters: if the store refuses it, start-up
    /// fails.
    fn planned(self, table: &Table) -> Result<Self> {
        self.variant(table, Shape::default())?;
        Ok(self)
    }

    /// The declared assignments.
    pub(crate) fn set(&self) -> &'static [AssignSpec] {
        self.set
    }

    /// Whether the call omits all parameters that could be written.
    pub(crate) fn writes_nothing(&self, call: &Call<'_>) -> bool {
        self.fixed.is_empty() && self.set.iter().all(|a| is_absent(a, call))
    }

    /// The statement for a call. `version` is the expected version; if it is given, the statement
    /// compares it with the stored version.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn of(
        &self,
        table: &Table,
        call: &Call<'_>,
        version: Option<i64>,
    ) -> Result<Arc<Variant>> {
        let mut absent = [0; 4];
        for (i, assign) in self.set.iter().enumerate() {
            // Entities have at most 255 fields, and no field is written twice.
            if let (true, Some(word)) = (is_absent(assign, call), absent.get_mut(i / 64)) {
                *word |= 1 << (i % 64);
            }
        }
        let missing = |(i, param): (usize, &ParamSpec)| {
            (param.may_miss() && call.args.get(i).is_none_or(Option::is_none)).then_some(i)
        };
        let missing = if self.narrows {
            self.spec
                .params
                .iter()
                .enumerate()
                .filter_map(missing)
                .collect()
        } else {
            Vec::new()
        };
        self.variant(
            table,
            Shape {
                absent,
                missing,
                versioned: version.is_some(),
            },
        )
    }

    fn variant(&self, table: &Table, shape: Shape) -> Result<Arc<Variant>> {
        if let Some(variant) = self.variants.read().get(&shape) {
            return Ok(Arc::clone(variant));
        }
        let mut slots = Slots::default();
        let filter = self
            .filter
            .clone()
            .without_params(&|param| shape.missing.contains(&param));
        // The macro checks that a fixed condition remains, so a write never affects every record.
        let filter = filter.ok_or_else(|| {
            Error::internal(format!(
                "operation `{}`: no condition remains",
                self.spec.name
            ))
        })?;
        let mut filter = slots.filter(table.desc, filter);
        if self.removes {
            let statement = table.prepare(self.spec.name, Plan::Delete { filter, pick: None })?;
            return Ok(self.keep(shape, Variant { statement, slots }));
        }
        let absent = |i: usize| {
            shape
                .absent
                .get(i / 64)
                .is_some_and(|word| word & (1 << (i % 64)) != 0)
        };
        let present: Vec<&AssignSpec> = self
            .set
            .iter()
            .enumerate()
            .filter(|(i, _)| !absent(*i))
            .map(|(_, a)| a)
            .collect();
        let mut set: Vec<Assign> = self
            .fixed
            .iter()
            .map(|a| bound(a, &mut slots, table))
            .collect();
        set.extend(bind::assignments(&mut slots, table.desc, &present));
        if self.narrows && set.is_empty() {
            // All assignments are omitted: no record changes and no event is emitted.
            let statement =
                table.prepare(self.spec.name, read_plan(table, filter, self.pick.as_ref()))?;
            return Ok(self.keep(shape, Variant { statement, slots }));
        }
        let now = slots.now();
        let set = table.touch(set, now);
        if let (true, Some(version)) = (shape.versioned, table.desc.version) {
            filter = filter.and(Filter::eq_arg(version.field, slots.len()));
        }
        let statement = table.prepare(
            self.spec.name,
            Plan::Update {
                filter,
                set,
                pick: self.pick.clone(),
            },
        )?;
        Ok(self.keep(shape, Variant { statement, slots }))
    }

    fn keep(&self, shape: Shape, variant: Variant) -> Arc<Variant> {
        let variant = Arc::new(variant);
        let mut variants = self.variants.write();
        if variants.len() >= VARIANTS {
            variants.clear();
        }
        variants.insert(shape, Arc::clone(&variant));
        variant
    }
}

/// A read of the records that a write would change, or their number if it would change all matches.
fn read_plan(table: &Table, filter: Filter, pick: Option<&Pick>) -> Plan {
    match pick {
        Some(pick) => {
            let limit = Some(Source::Value(Value::Int(i64::from(pick.limit))));
            Plan::Select {
                filter,
                order: pick.order.clone(),
                after: None,
                limit,
            }
        }
        None => {
            let all = Compute {
                function: Function::Count,
                field: table.desc.primary,
                filter: Filter::TRUE,
            };
            Plan::Aggregate {
                filter,
                groups: Vec::new(),
                by_value: Vec::new(),
                compute: vec![all],
                limit: 1,
            }
        }
    }
}

/// An assignment whose values are replaced by argument slots.
fn bound(assign: &Assign, slots: &mut Slots, table: &Table) -> Assign {
    let field = assign.field;
    let mut slot = |source: &Source| slots.slot(table.desc, field, source.clone());
    let value = match &assign.value {
        AssignValue::Set(source) => AssignValue::Set(slot(source)),
        AssignValue::Add(source) => AssignValue::Add(slot(source)),
        AssignValue::Push { value, dedupe } => AssignValue::Push {
            value: slot(value),
            dedupe: *dedupe,
        },
        AssignValue::Pull(source) => AssignValue::Pull(slot(source)),
        AssignValue::AddItem(source) => AssignValue::AddItem(slot(source)),
        AssignValue::RemoveItem { key, id } => AssignValue::RemoveItem { key, id: slot(id) },
        AssignValue::ChangeItem { key, id, members } => {
            let id = slot(id);
            AssignValue::ChangeItem {
                key,
                id,
                members: members
                    .iter()
                    .map(|(name, source)| (*name, slot(source)))
                    .collect(),
            }
        }
        // The values of this assignment are already in argument slots.
        AssignValue::Figure(figure) => AssignValue::Figure(figure.clone()),
    };
    Assign { field, value }
}

fn is_absent(assign: &AssignSpec, call: &Call<'_>) -> bool {
    matches!(assign.value, SourceSpec::Param(p) if call.args.get(p).is_none_or(Option::is_none))
}
