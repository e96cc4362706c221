//! Guarded writes: one UPDATE that says in its WHERE clause when it may happen.
//!
//! Shared by every kind that changes one record under a condition. When no row was changed, one read tells why.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::bind::{self, Slots};
use super::{AssignSpec, OpSpec};
use crate::filter::{Filter, SourceSpec};
use crate::resource::{Call, Form, Prepared, Table};
use crate::store::{Assign, Plan, Rows};
use crate::{Code, Error, Result, Value};

/// How often a write is repeated when the read says it should have succeeded.
const RETRIES: usize = 3;

/// Why a visible record was not changed.
pub(crate) enum Refusal {
    /// Nothing speaks against it any more: another call changed it in between.
    Retry,
    /// This.
    Error(Error),
}

/// A planned guarded write.
pub(crate) struct Guarded {
    spec: &'static OpSpec,
    matches: &'static [AssignSpec],
    guard: Filter,
    fixed: Vec<Assign>,
    set: &'static [AssignSpec],
    /// By variant: which of the droppable assignments are absent, and whether a version is expected.
    variants: RwLock<HashMap<u64, Arc<Variant>>>,
    read: Prepared,
    read_slots: Slots,
}

struct Variant {
    statement: Prepared,
    slots: Slots,
}

impl Guarded {
    /// Plans a write of `fixed` and `set` to the record that `matches`, under `guard`.
    ///
    /// # Errors
    /// When the store refuses a statement.
    pub(crate) fn new(
        spec: &'static OpSpec,
        table: &Table,
        matches: &'static [AssignSpec],
        guard: Filter,
        fixed: Vec<Assign>,
        set: &'static [AssignSpec],
    ) -> Result<Self> {
        let mut read_slots = Slots::default();
        let filter = read_slots.filter(table.desc, bind::equalities(matches));
        let read = table.prepare(spec.name, Plan::Select { filter, order: Vec::new(), after: None, limit: None })?;
        let guarded = Self { spec, matches, guard, fixed, set, variants: RwLock::default(), read, read_slots };
        guarded.variant(table, 0)?;
        Ok(guarded)
    }

    /// Runs the write. `refuse` explains a visible record that was not changed.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed`, what `refuse` says, and `conflict` when the record keeps changing.
    pub(crate) async fn run(&self, table: &Table, call: &Call<'_>, refuse: impl Fn(&[Value]) -> Refusal) -> Result<Rows> {
        bind::check(self.spec, table, call, self.set)?;
        let expected = table.desc.version.and(call.version);
        let mut key = u64::from(expected.is_some()) << 63;
        for (i, assign) in self.set.iter().enumerate() {
            if let SourceSpec::Param(p) = assign.value
                && call.args.get(p).is_none_or(Option::is_none)
            {
                key |= 1 << i;
            }
        }
        let variant = self.variant(table, key)?;
        for _ in 0..RETRIES {
            let mut args = variant.slots.values(call.cx, &call.args)?;
            args.extend(expected.map(Value::Int));
            let rows = table.execute(call.cx, &variant.statement, args, table.rows(call.form)).await?;
            if rows.count > 0 {
                return Ok(rows);
            }
            let args = self.read_slots.values(call.cx, &call.args)?;
            let rows = table.execute(call.cx, &self.read, args, table.rows(&Form::Records)).await?;
            let rows = table.found(rows, expected)?;
            match rows.records.first().map(|record| refuse(record)) {
                Some(Refusal::Error(error)) => return Err(error),
                Some(Refusal::Retry) => {}
                None => return Err(Error::not_found()),
            }
        }
        Err(Error::new(Code::Conflict, "The record kept changing; try again"))
    }

    fn variant(&self, table: &Table, key: u64) -> Result<Arc<Variant>> {
        if let Some(variant) = self.variants.read().get(&key) {
            return Ok(Arc::clone(variant));
        }
        let mut slots = Slots::default();
        let mut filter = slots.filter(table.desc, bind::equalities(self.matches).and(self.guard.clone()));
        let present: Vec<&AssignSpec> = self.set.iter().enumerate().filter(|(i, _)| key & (1 << i) == 0).map(|(_, a)| a).collect();
        let mut set = self.fixed.clone();
        set.extend(bind::assignments(&mut slots, table.desc, &present));
        let now = slots.now();
        let set = table.touch(set, now);
        if let (true, Some(version)) = (key >> 63 == 1, table.desc.version) {
            filter = filter.and(Filter::eq_arg(version.field, slots.len()));
        }
        let statement = table.prepare(self.spec.name, Plan::Update { filter, set })?;
        let variant = Arc::new(Variant { statement, slots });
        self.variants.write().insert(key, Arc::clone(&variant));
        Ok(variant)
    }
}
