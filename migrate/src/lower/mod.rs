//! Lowers the difference between two snapshots to an ordered list of steps for a database.
//!
//! A step is one change of the schema, one batched change of rows, or only a check. The steps
//! depend only on a [`Link`] of the chain and on the [`Terrain`].

mod alter;
mod contract;
pub(crate) mod entity;
pub(crate) mod fill;
#[cfg(test)]
mod fixture;
mod kept;
#[cfg(test)]
mod postgres_tests;
#[cfg(test)]
mod sqlite_tests;
mod taken;
#[cfg(test)]
mod taken_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use linchpin_core::schema::{Action, Dialect, Snapshot, Tables};

pub use self::kept::Reverse;

use crate::check::Check;
use crate::data::DataAction;
use crate::own_sql::{self, OwnSql};
use crate::pairs::{self, EntityPair};
use crate::step::{Phase, Risk, RowClass, Step, Work, kind_of};

/// A link of the chain: the snapshots before and after a migration, and its functions.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The number of the migration.
    pub seq: u64,
    /// The snapshot that it starts from.
    pub before: &'a Snapshot,
    /// The snapshot that it leads to.
    pub after: &'a Snapshot,
    /// The names of transforms by storage name and field of the later snapshot.
    pub transforms: &'a BTreeMap<(String, String), String>,
    /// The functions that convert new values back, by storage name and field of the later snapshot.
    pub reverses: &'a BTreeMap<(String, String), Reverse>,
}

/// The properties of the database and the new binary that steps depend on.
#[derive(Clone, Copy)]
pub struct Terrain<'a> {
    /// The SQL dialect of the store.
    pub dialect: &'a dyn Dialect,
    /// The size classes of tables, by their number of rows.
    pub classes: &'a BTreeMap<String, RowClass>,
    /// Whether messages must not show the values of a field, by storage name and field.
    pub sensitive: &'a dyn Fn(&str, &str) -> bool,
    /// The SQL that custom operations of the new binary declare.
    pub own_sql: &'a [OwnSql],
    /// Returns the reason why the values of a field must be in one column for the new binary, by
    /// storage name and field.
    pub uses: &'a dyn Fn(&str, &str) -> Option<String>,
}

/// The steps of a link, and whether two binaries can serve while they run.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The reason why the previous binary must stop before the new one serves; `None` if both can
    /// serve together.
    pub fence: Option<String>,
    /// The last phase of the steps that the new binary needs before it serves.
    pub ready: Phase,
    /// The functions that convert new values for earlier columns while both binaries serve.
    pub reverses: Vec<String>,
    /// Notes on the steps.
    pub notes: Vec<String>,
}

/// Returns the steps of a link.
pub fn lower(link: &Link<'_>, terrain: &Terrain<'_>) -> Lowered {
    let tables = link.before.tables();
    let (before, notes) = taken::without_taken(link.before, link.after);
    let link = Link {
        before: &before,
        ..*link
    };
    let mut lowering = Lowering {
        link,
        terrain: *terrain,
        tables,
        steps: Vec::new(),
        late: Vec::new(),
        fence: None,
        reverses: Vec::new(),
    };
    let pairs = pairs::entities(link.before, link.after);
    for pair in &pairs {
        match pair {
            EntityPair::New(entity) => lowering.create(entity),
            EntityPair::Kept { before, after } => lowering.expand(before, after),
            EntityPair::Gone(_) => {}
        }
    }
    for pair in &pairs {
        if let EntityPair::Kept { before, after } = pair {
            lowering.widen(before, after);
        }
    }
    for pair in &pairs {
        if let EntityPair::Kept { before, after } = pair {
            lowering.backfill(before, after);
        }
    }
    lowering.recount(&pairs);
    for pair in &pairs {
        if let EntityPair::Kept { before, after } = pair {
            lowering.compute(before, after);
        }
    }
    for pair in &pairs {
        if let EntityPair::Kept { before, after } = pair {
            lowering.contract(before, after);
        }
    }
    for pair in &pairs {
        if let EntityPair::Gone(entity) = pair {
            lowering.drop_table(&entity.storage_name);
        }
    }
    if lowering.fence.is_none() {
        lowering.fence = own_sql::fence(terrain.own_sql, link.before, link.after);
    }
    let overlap = lowering.fence.is_none();
    for step in &mut lowering.steps {
        step.overlap = overlap;
    }
    if !overlap {
        lowering.reverses.clear();
    }
    Lowered {
        steps: lowering.steps,
        ready: match lowering.fence {
            // Every record needs a value in the new column before the new binary reads it.
            None if !lowering.reverses.is_empty() => Phase::Backfill,
            None => Phase::Expand,
            Some(_) => Phase::Contract,
        },
        fence: lowering.fence,
        reverses: lowering.reverses,
        notes,
    }
}

/// The steps so far, and the physical model after them.
struct Lowering<'a> {
    link: Link<'a>,
    terrain: Terrain<'a>,
    tables: Tables,
    steps: Vec<Step>,
    /// Indexes on columns that must be filled first: the entity and the index.
    late: Vec<(String, linchpin_core::schema::Index)>,
    fence: Option<String>,
    /// The functions of fields whose earlier columns are kept up to date.
    reverses: Vec<String>,
}

/// A step before it has a number.
struct Planned<'p> {
    phase: Phase,
    risk: Risk,
    /// The storage name of the entity.
    entity: &'p str,
    work: Work,
    before: Vec<Check>,
    after: Vec<Check>,
    inverse: Option<Action>,
}

impl Planned<'_> {
    /// A safe step of a phase, as the base of a struct update.
    fn of(phase: Phase) -> Self {
        Self {
            phase,
            risk: Risk::Safe,
            entity: "",
            work: Work::Schema(Action::DropTable {
                table: String::new(),
            }),
            before: Vec::new(),
            after: Vec::new(),
            inverse: None,
        }
    }
}

impl Lowering<'_> {
    /// Adds a step and applies it to the model.
    fn step(&mut self, planned: Planned<'_>) {
        let Planned {
            phase,
            risk,
            entity,
            work,
            before,
            mut after,
            inverse,
        } = planned;
        let seq = self.link.seq;
        let mut checks = Vec::new();
        if phase == Phase::Contract || risk == Risk::Widening {
            checks.push(Check::NoInstancesBelow(seq));
        }
        checks.extend(before);
        let (kind, object, table) = match &work {
            Work::Schema(action) => {
                let present = match action {
                    Action::RenameTable { from, .. } => from.as_str(),
                    other => other.table(),
                };
                (
                    kind_of(action),
                    action.object().map(str::to_owned),
                    present.to_owned(),
                )
            }
            Work::Data(data) => (
                data.kind(),
                Some(data.column().name.clone()),
                data.table().to_owned(),
            ),
            Work::Check { table, column } => {
                ("checkReferences", Some(column.clone()), table.clone())
            }
        };
        if let Work::Schema(action) = &work {
            match action {
                Action::DropTable { table } => after.push(Check::TableAbsent(table.clone())),
                other => after.push(Check::Matches(other.table().to_owned())),
            }
        }
        let class = self.terrain.classes.get(&table).copied();
        let number = self.steps.len() + 1;
        let requires = self.steps.last().map(|step: &Step| step.id.clone());
        let mut step = Step {
            id: format!("{seq:04}.{number:02}"),
            phase,
            kind,
            entity: entity.to_owned(),
            object,
            risk,
            work,
            before: checks,
            after,
            inverse,
            requires: requires.into_iter().collect(),
            class: class.unwrap_or(RowClass::EMPTY),
            overlap: true,
            digest: String::new(),
        };
        step.digest = step.identity(self.terrain.dialect, &self.tables);
        step.apply(&mut self.tables);
        self.steps.push(step);
    }

    /// Adds a change of rows.
    fn data(&mut self, phase: Phase, risk: Risk, entity: &str, data: DataAction) {
        self.step(Planned {
            risk,
            entity,
            work: Work::Data(data),
            ..Planned::of(phase)
        });
    }

    fn is_sensitive(&self, entity: &str, field: &str) -> bool {
        (self.terrain.sensitive)(entity, field)
    }

    fn transform(&self, entity: &str, field: &str) -> Option<String> {
        let key = (entity.to_owned(), field.to_owned());
        self.link.transforms.get(&key).cloned()
    }
}
