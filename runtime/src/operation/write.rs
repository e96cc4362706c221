//! Writes under a condition: what is written, to what matches, prepared once per set of values that a call gives.
//!
//! Shared by every kind that changes records with one UPDATE.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::bind::{self, Slots};
use super::{AssignSpec, OpSpec};
use crate::filter::{Filter, SourceSpec};
use crate::resource::{Call, Prepared, Table};
use crate::store::{Assign, AssignValue, Pick, Plan};
use crate::{Result, Value};

/// Most statements kept per operation; which values a call leaves out is the client's choice.
const VARIANTS: usize = 256;

/// A planned write.
pub(crate) struct Write {
    spec: &'static OpSpec,
    filter: Filter,
    fixed: Vec<Assign>,
    set: &'static [AssignSpec],
    pick: Option<Pick>,
    variants: RwLock<HashMap<Shape, Arc<Variant>>>,
}

/// Which assignments are left out, a bit for each, and whether a version is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    absent: [u64; 4],
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
    /// Plans a write of `fixed` and `set` to what `filter` matches. Assignments of `set` whose parameter is left out do not
    /// happen.
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
        Self::first(spec, table, filter, fixed, set, None)
    }

    /// The same, to the first records alone.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn first(
        spec: &'static OpSpec,
        table: &Table,
        filter: Filter,
        fixed: Vec<Assign>,
        set: &'static [AssignSpec],
        pick: Option<Pick>,
    ) -> Result<Self> {
        let write = Self { spec, filter, fixed, set, pick, variants: RwLock::default() };
        write.variant(table, Shape { absent: [0; 4], versioned: false })?;
        Ok(write)
    }

    /// The declared assignments.
    pub(crate) fn set(&self) -> &'static [AssignSpec] {
        self.set
    }

    /// Whether the call leaves out everything that could be written.
    pub(crate) fn writes_nothing(&self, call: &Call<'_>) -> bool {
        self.fixed.is_empty() && self.set.iter().all(|a| is_absent(a, call))
    }

    /// The statement for a call. `version` is an argument of it when the entity has one.
    ///
    /// # Errors
    /// When the store refuses the statement.
    pub(crate) fn of(&self, table: &Table, call: &Call<'_>, version: Option<i64>) -> Result<Arc<Variant>> {
        let mut absent = [0; 4];
        for (i, assign) in self.set.iter().enumerate() {
            // Entities have at most 255 fields, and no field is written twice.
            if let (true, Some(word)) = (is_absent(assign, call), absent.get_mut(i / 64)) {
                *word |= 1 << (i % 64);
            }
        }
        self.variant(table, Shape { absent, versioned: version.is_some() })
    }

    fn variant(&self, table: &Table, shape: Shape) -> Result<Arc<Variant>> {
        if let Some(variant) = self.variants.read().get(&shape) {
            return Ok(Arc::clone(variant));
        }
        let mut slots = Slots::default();
        let mut filter = slots.filter(table.desc, self.filter.clone());
        let absent = |i: usize| shape.absent.get(i / 64).is_some_and(|word| word & (1 << (i % 64)) != 0);
        let present: Vec<&AssignSpec> = self.set.iter().enumerate().filter(|(i, _)| !absent(*i)).map(|(_, a)| a).collect();
        let mut set: Vec<Assign> = self.fixed.iter().map(|a| bound(a, &mut slots, table)).collect();
        set.extend(bind::assignments(&mut slots, table.desc, &present));
        let now = slots.now();
        let set = table.touch(set, now);
        if let (true, Some(version)) = (shape.versioned, table.desc.version) {
            filter = filter.and(Filter::eq_arg(version.field, slots.len()));
        }
        let statement = table.prepare(self.spec.name, Plan::Update { filter, set, pick: self.pick.clone() })?;
        let variant = Arc::new(Variant { statement, slots });
        let mut variants = self.variants.write();
        if variants.len() >= VARIANTS {
            variants.clear();
        }
        variants.insert(shape, Arc::clone(&variant));
        Ok(variant)
    }
}

/// An assignment with its source in a slot.
fn bound(assign: &Assign, slots: &mut Slots, table: &Table) -> Assign {
    let field = assign.field;
    let mut slot = |source: &crate::filter::Source| slots.slot(table.desc, field, source.clone());
    let value = match &assign.value {
        AssignValue::Set(source) => AssignValue::Set(slot(source)),
        AssignValue::Add(source) => AssignValue::Add(slot(source)),
        AssignValue::Push { value, dedupe } => AssignValue::Push { value: slot(value), dedupe: *dedupe },
        AssignValue::Pull(source) => AssignValue::Pull(slot(source)),
        AssignValue::AddItem(source) => AssignValue::AddItem(slot(source)),
        AssignValue::RemoveItem { key, id } => AssignValue::RemoveItem { key, id: slot(id) },
        AssignValue::ChangeItem { key, id, members } => {
            let id = slot(id);
            AssignValue::ChangeItem { key, id, members: members.iter().map(|(name, source)| (*name, slot(source))).collect() }
        }
        // Its values are in slots already.
        AssignValue::Figure(figure) => AssignValue::Figure(figure.clone()),
    };
    Assign { field, value }
}

fn is_absent(assign: &AssignSpec, call: &Call<'_>) -> bool {
    matches!(assign.value, SourceSpec::Param(p) if call.args.get(p).is_none_or(Option::is_none))
}
