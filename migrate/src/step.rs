//! The steps of a plan.

use linchpin_core::schema::{Action, Dialect, Index, LockLevel, Tables};
use serde_json::{Value as Json, json};

use crate::canonical;
use crate::check::Check;
use crate::data::DataAction;

/// The phase of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The previous binary keeps working until a step with [`Risk::Widening`] begins.
    Expand,
    /// Rows are filled. Both binaries keep working.
    Backfill,
    /// The previous binary may fail after the step, or the step removes an object.
    Contract,
}

impl Phase {
    /// The name in plans, such as `expand`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Backfill => "backfill",
            Self::Contract => "contract",
        }
    }
}

/// The risk of a step. Steps of one kind can have different risks: for example, `rebuildTable` can
/// be safe or destructive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Adds an object that the previous binary does not use.
    Safe,
    /// The new binary may store values that the previous one cannot read.
    Widening,
    /// Writes values to rows: values that the plan contains, or values computed from the rows.
    Data,
    /// Runs a function of the app on the rows.
    Transform,
    /// Removes an object that the previous binary uses, or refuses values that it may write.
    Breaking,
    /// Removes stored values.
    Destructive,
}

impl Risk {
    /// The name in plans, such as `safe`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Widening => "widening",
            Self::Data => "data",
            Self::Transform => "transform",
            Self::Breaking => "breaking",
            Self::Destructive => "destructive",
        }
    }
}

/// The work of a step.
#[derive(Clone, Debug)]
pub enum Work {
    /// A change of the schema.
    Schema(Action),
    /// A change of rows.
    Data(DataAction),
    /// Only the conditions of the step.
    Check {
        /// The table.
        table: String,
        /// The column that the conditions check.
        column: String,
    },
}

/// A step of a plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// The id: the number of the migration and the number of the step, such as `0003.02`.
    pub id: String,
    /// The phase.
    pub phase: Phase,
    /// The kind, such as `addColumn`.
    pub kind: &'static str,
    /// The storage name of the entity, that of the later snapshot unless the entity is dropped.
    pub entity: String,
    /// The column or index; `None` for the table itself.
    pub object: Option<String>,
    /// The risk.
    pub risk: Risk,
    /// Its work.
    pub work: Work,
    /// The conditions that must hold before it.
    pub before: Vec<Check>,
    /// The conditions that must hold after it.
    pub after: Vec<Check>,
    /// The action that undoes it while a rollback is possible.
    pub inverse: Option<Action>,
    /// The ids of the steps that must be done before it.
    pub requires: Vec<String>,
    /// The size class of its table.
    pub class: RowClass,
    /// Whether the previous binary and the new one can serve together at some time during the
    /// migration. The value is the same for all its steps.
    pub overlap: bool,
    /// The digest of its content. The ledger records it when the step starts, and it must stay the
    /// same while its migration is open.
    pub digest: String,
}

impl Step {
    /// Whether a run that reaches the step needs an approval.
    pub fn needs_approval(&self) -> bool {
        self.phase == Phase::Contract
            || matches!(
                self.risk,
                Risk::Data | Risk::Transform | Risk::Breaking | Risk::Destructive
            ) && !self.is_known_data()
    }

    /// Whether it writes only values that the plan contains.
    fn is_known_data(&self) -> bool {
        matches!(&self.work, Work::Data(data) if data.is_known())
    }

    /// Whether the new binary may store values after it that the previous one cannot read.
    pub fn is_widening(&self) -> bool {
        self.risk == Risk::Widening
    }

    /// Whether older binaries can no longer serve after the step has begun.
    pub fn narrows(&self) -> bool {
        self.phase == Phase::Contract || self.is_widening()
    }

    /// The present name of the table that the step changes or reads.
    pub fn table(&self) -> &str {
        match &self.work {
            Work::Schema(Action::RenameTable { from, .. }) => from,
            Work::Schema(action) => action.table(),
            Work::Data(data) => data.table(),
            Work::Check { table, .. } => table,
        }
    }

    /// Whether the step waits until no older binary serves.
    pub fn waits_for_instances(&self) -> bool {
        self.before
            .iter()
            .any(|check| matches!(check, Check::NoInstancesBelow(_)))
    }

    /// Whether the whole step is one transaction.
    pub fn is_transactional(&self, dialect: &dyn Dialect) -> bool {
        match &self.work {
            Work::Schema(action) => dialect.is_transactional(action),
            Work::Data(_) => false,
            Work::Check { .. } => true,
        }
    }

    /// Returns the statements, for plans. `tables` is the physical model before the step.
    pub fn statements(&self, dialect: &dyn Dialect, tables: &Tables) -> Vec<String> {
        match &self.work {
            Work::Schema(action) => dialect.statements(action, tables),
            Work::Data(data) => data.statements(dialect),
            Work::Check { .. } => Vec::new(),
        }
    }

    /// Applies the changes of the step to the physical model.
    pub fn apply(&self, tables: &mut Tables) {
        if let Work::Schema(action) = &self.work {
            action.apply(tables);
        }
    }

    /// The digest of the content of the step, without values that may differ between two plans of
    /// the same migration. `tables` is the physical model before the step.
    pub(crate) fn identity(&self, dialect: &dyn Dialect, tables: &Tables) -> String {
        canonical::digest(&json!({
            "id": self.id,
            "phase": self.phase.name(),
            "kind": self.kind,
            "entity": self.entity,
            "object": self.object,
            "statement": self.statements(dialect, tables),
            "transform": match &self.work {
                Work::Data(data) => data.transform(),
                _ => None,
            },
        }))
    }

    /// The objects that the step renames, by their names in the later snapshot.
    pub(crate) fn renames(&self) -> Vec<String> {
        let qualified = |column: &str| format!("{}.{column}", self.entity);
        match &self.work {
            Work::Schema(Action::RenameTable { to, .. }) => vec![to.clone()],
            Work::Schema(Action::RenameColumn { to, .. }) => vec![qualified(to)],
            Work::Schema(Action::SwapColumn { name, .. }) => vec![qualified(name)],
            _ => self
                .renamed_columns()
                .map(|(new, _)| qualified(new))
                .collect(),
        }
    }

    /// The new and the present names of the columns that a rebuild of the table renames.
    pub(crate) fn renamed_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        let columns = match &self.work {
            Work::Schema(Action::Rebuild { columns, .. }) => columns.as_slice(),
            _ => &[],
        };
        let pairs = columns
            .iter()
            .map(|(new, old)| (new.as_str(), old.as_str()));
        pairs.filter(|(new, present)| new != present)
    }

    /// Returns the step in its JSON form. `tables` is the physical model before the step.
    pub fn to_json(&self, dialect: &dyn Dialect, tables: &Tables) -> Json {
        let statements = self.statements(dialect, tables);
        let lock = match &self.work {
            Work::Schema(action) => dialect.lock(action),
            Work::Data(_) => LockLevel {
                name: "row locks",
                brief: false,
            },
            Work::Check { .. } => LockLevel {
                name: "",
                brief: true,
            },
        };
        let lock = match (lock.name, lock.brief) {
            ("", _) => String::new(),
            (name, true) => format!("{name} brief"),
            (name, false) => name.to_owned(),
        };
        let checks = |list: &[Check]| -> Vec<Json> {
            list.iter().map(|check| check.to_json(dialect)).collect()
        };
        let inverse = self.inverse.as_ref().map(|action| {
            // The statements read only this table of the model.
            let table = |name: &str| tables.get(name).map(|t| (name.to_owned(), t.clone()));
            let mut after: Tables = table(action.table()).into_iter().collect();
            self.apply(&mut after);
            json!({ "statement": dialect.statements(action, &after) })
        });
        json!({
            "id": self.id,
            "phase": self.phase.name(),
            "kind": self.kind,
            "entity": self.entity,
            "object": self.object,
            "risk": self.risk.name(),
            "lock": lock,
            "rows": { "class": self.class.name() },
            "requires": self.requires,
            "preconditions": checks(&self.before),
            "action": { "dialect": dialect.name(), "statement": statements, "params": [] },
            "verification": checks(&self.after),
            "inverse": inverse,
            "transactional": self.is_transactional(dialect),
            "overlap": self.overlap,
            "approval": self.needs_approval(),
        })
    }
}

/// The size class of a table, by its number of rows. An approval is valid only for the same class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowClass(u32);

impl RowClass {
    /// No rows.
    pub const EMPTY: Self = Self(0);
    /// The class of 100,000,000 rows and more, and of an unknown number of rows.
    pub const LARGEST: Self = Self(9);

    /// Returns the class of a number of rows.
    pub fn of(rows: u64) -> Self {
        match rows {
            0 => Self::EMPTY,
            _ => (3..=8)
                .find(|power| rows < 10_u64.pow(*power))
                .map_or(Self::LARGEST, Self),
        }
    }

    /// Returns the class with this name.
    pub(crate) fn read(name: &str) -> Option<Self> {
        (0..=9).map(Self).find(|class| class.name() == name)
    }

    /// The name: `empty`, `<1e3`, `<1e4` and so on, and `>=1e8`.
    pub fn name(self) -> String {
        match self.0 {
            0 => "empty".to_owned(),
            9 => ">=1e8".to_owned(),
            power => format!("<1e{power}"),
        }
    }
}

/// Returns the kind of a step that runs an action.
pub(crate) fn kind_of(action: &Action) -> &'static str {
    match action {
        Action::CreateTable { .. } => "createTable",
        Action::DropTable { .. } => "dropTable",
        Action::RenameTable { .. } => "renameTable",
        Action::CreateIndex {
            index: Index { unique: true, .. },
            ..
        } => "createUniqueIndex",
        Action::CreateIndex { .. } => "createIndex",
        Action::DropIndex { .. } => "dropIndex",
        Action::RenameIndex { .. } => "renameIndex",
        Action::AddColumn { .. } => "addColumn",
        Action::DropColumn { .. } => "dropColumn",
        Action::RenameColumn { .. } => "renameColumn",
        Action::SetDefault { .. } => "setDefault",
        Action::DropNotNull { .. } => "dropNotNull",
        Action::SetNotNull { .. } => "setNotNull",
        Action::AddCheck { .. } => "addCheck",
        Action::ValidateCheck { .. } => "validateCheck",
        Action::DropCheck { .. } => "dropCheck",
        Action::RenameCheck { .. } => "renameCheck",
        Action::ReplaceCheck { .. } => "replaceCheck",
        Action::SwapColumn { .. } => "swapColumn",
        Action::Rebuild { .. } => "rebuildTable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_classes_are_powers_of_ten() {
        let name = |rows| RowClass::of(rows).name();
        assert_eq!(name(0), "empty");
        assert_eq!(name(1), "<1e3");
        assert_eq!(name(999), "<1e3");
        assert_eq!(name(1000), "<1e4");
        assert_eq!(name(99_999_999), "<1e8");
        assert_eq!(name(100_000_000), ">=1e8");
        for rows in [0, 1, 1_000, 100_000_000] {
            assert_eq!(RowClass::read(&name(rows)), Some(RowClass::of(rows)));
        }
        assert_eq!(RowClass::read("many"), None);
    }
}
