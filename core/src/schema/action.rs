//! Changes of a database, and their effect on the physical model.

use std::collections::BTreeMap;

use super::physical::{Check, CheckRule, Column, ColumnKind, Index, Table};
use crate::Value;

/// Tables by name.
pub type Tables = BTreeMap<String, Table>;

/// One change of a database.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates a table with its columns and its primary key, without its indexes.
    CreateTable {
        /// The table.
        table: Table,
    },
    /// Removes a table with its rows.
    DropTable {
        /// The name of the table.
        table: String,
    },
    /// Renames a table with the constraint of its primary key and the checks of its enums.
    RenameTable {
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Creates an index.
    CreateIndex {
        /// The name of the table.
        table: String,
        /// The index.
        index: Index,
        /// Whether other sessions may write during the build, if the store supports it.
        concurrently: bool,
    },
    /// Removes an index.
    DropIndex {
        /// The name of the table.
        table: String,
        /// The name of the index.
        index: String,
    },
    /// Renames an index.
    RenameIndex {
        /// The name of the table.
        table: String,
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Adds a column.
    AddColumn {
        /// The name of the table.
        table: String,
        /// The column.
        column: Column,
    },
    /// Removes a column with its values.
    DropColumn {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// Renames a column; for an enum, also its check.
    RenameColumn {
        /// The name of the table.
        table: String,
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Sets or removes the default of a column.
    SetDefault {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
        /// The default; `None` removes it.
        default: Option<Value>,
    },
    /// Allows null in a column.
    DropNotNull {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// Refuses null in a column. After a verified `NOT NULL` check of the column, the database does
    /// not scan the table again.
    SetNotNull {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// Adds a check that applies to new and changed rows only.
    AddCheck {
        /// The name of the table.
        table: String,
        /// The check.
        check: Check,
    },
    /// Verifies a check against the rows that existed before it.
    ValidateCheck {
        /// The name of the table.
        table: String,
        /// The name of the check.
        check: String,
    },
    /// Removes a check.
    DropCheck {
        /// The name of the table.
        table: String,
        /// The name of the check.
        check: String,
    },
    /// Renames a check or the constraint of the primary key, for example one that an earlier
    /// release created without an explicit name. In the physical model, only the name of a check in
    /// [`Table::checks`] changes: for the primary key and the checks of enums, the model already
    /// has the new name.
    RenameCheck {
        /// The name of the table.
        table: String,
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Replaces the check of an enum column by a verified check, which takes its name.
    ReplaceCheck {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
        /// The name of the new check.
        check: String,
    },
    /// Replaces a column by a filled one: removes the old column and the copy of its values, and
    /// renames the filled column.
    SwapColumn {
        /// The name of the table.
        table: String,
        /// The column to replace.
        old: String,
        /// The filled column.
        next: String,
        /// The column with the values that `next` was computed from.
        source: String,
        /// The final name.
        name: String,
    },
    /// Replaces a table by a new one with other columns or constraints, and copies its rows. For
    /// stores that cannot alter constraints.
    Rebuild {
        /// The table as it is.
        from: Table,
        /// The table as it will be, with its indexes.
        to: Table,
        /// For each column that is copied, its new name and its present name.
        columns: Vec<(String, String)>,
    },
}

impl Action {
    /// Returns the name of the table that the action changes; after a rename, the new one.
    pub fn table(&self) -> &str {
        match self {
            Self::CreateTable { table } | Self::Rebuild { to: table, .. } => &table.name,
            Self::RenameTable { to, .. } => to,
            Self::DropTable { table }
            | Self::CreateIndex { table, .. }
            | Self::DropIndex { table, .. }
            | Self::RenameIndex { table, .. }
            | Self::AddColumn { table, .. }
            | Self::DropColumn { table, .. }
            | Self::RenameColumn { table, .. }
            | Self::SetDefault { table, .. }
            | Self::DropNotNull { table, .. }
            | Self::SetNotNull { table, .. }
            | Self::AddCheck { table, .. }
            | Self::ValidateCheck { table, .. }
            | Self::DropCheck { table, .. }
            | Self::RenameCheck { table, .. }
            | Self::ReplaceCheck { table, .. }
            | Self::SwapColumn { table, .. } => table,
        }
    }

    /// Returns the name of the object within the table; `None` if it is the table itself.
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::CreateTable { .. }
            | Self::DropTable { .. }
            | Self::RenameTable { .. }
            | Self::Rebuild { .. } => None,
            Self::CreateIndex { index, .. } => Some(&index.name),
            Self::DropIndex { index, .. } => Some(index),
            Self::RenameIndex { to, .. }
            | Self::RenameColumn { to, .. }
            | Self::RenameCheck { to, .. } => Some(to),
            Self::AddColumn { column, .. } => Some(&column.name),
            Self::DropColumn { column, .. }
            | Self::SetDefault { column, .. }
            | Self::DropNotNull { column, .. }
            | Self::SetNotNull { column, .. }
            | Self::ReplaceCheck { column, .. } => Some(column),
            Self::AddCheck { check, .. } => Some(&check.name),
            Self::ValidateCheck { check, .. } | Self::DropCheck { check, .. } => Some(check),
            Self::SwapColumn { name, .. } => Some(name),
        }
    }

    /// Changes the physical model as the action changes the database. An action on an object that
    /// does not exist changes nothing.
    pub fn apply(&self, tables: &mut Tables) {
        match self {
            Self::CreateTable { table } => {
                let bare = Table {
                    indexes: Vec::new(),
                    ..table.clone()
                };
                tables.insert(table.name.clone(), bare);
            }
            Self::DropTable { table } => {
                tables.remove(table);
            }
            Self::RenameTable { from, to } => {
                if let Some(mut table) = tables.remove(from) {
                    table.name.clone_from(to);
                    tables.insert(to.clone(), table);
                }
            }
            Self::Rebuild { from, to, .. } => {
                tables.remove(&from.name);
                tables.insert(to.name.clone(), to.clone());
            }
            _ => {
                if let Some(table) = tables.get_mut(self.table()) {
                    self.alter(table);
                }
            }
        }
    }

    fn alter(&self, table: &mut Table) {
        match self {
            Self::CreateIndex { index, .. } => table.indexes.push(index.clone()),
            Self::DropIndex { index, .. } => table.indexes.retain(|i| i.name != *index),
            Self::RenameIndex { from, to, .. } => {
                for index in table.indexes.iter_mut().filter(|i| i.name == *from) {
                    index.name.clone_from(to);
                }
            }
            Self::AddColumn { column, .. } => table.columns.push(column.clone()),
            Self::DropColumn { column, .. } => table.columns.retain(|c| c.name != *column),
            Self::RenameColumn { from, to, .. } => rename(table, from, to),
            Self::SetDefault {
                column, default, ..
            } => {
                if let Some(column) = table.column_mut(column) {
                    column.default.clone_from(default);
                }
            }
            Self::DropNotNull { column, .. } => set_optional(table, column, true),
            Self::SetNotNull { column, .. } => set_optional(table, column, false),
            Self::AddCheck { check, .. } => table.checks.push(check.clone()),
            Self::ValidateCheck { check, .. } => {
                for check in table.checks.iter_mut().filter(|c| c.name == *check) {
                    check.valid = true;
                }
            }
            Self::DropCheck { check, .. } => table.checks.retain(|c| c.name != *check),
            Self::RenameCheck { from, to, .. } => {
                for check in table.checks.iter_mut().filter(|c| c.name == *from) {
                    check.name.clone_from(to);
                }
            }
            Self::ReplaceCheck { column, check, .. } => {
                let at = table.checks.iter().position(|c| c.name == *check);
                let replaced = at.map(|at| table.checks.remove(at).rule);
                if let (Some(CheckRule::Values(values)), Some(column)) =
                    (replaced, table.column_mut(column))
                {
                    column.kind = ColumnKind::Enum(values);
                }
            }
            Self::SwapColumn {
                old,
                next,
                source,
                name,
                ..
            } => {
                table
                    .columns
                    .retain(|column| column.name != *old && column.name != *source);
                rename(table, next, name);
            }
            Self::CreateTable { .. }
            | Self::DropTable { .. }
            | Self::RenameTable { .. }
            | Self::Rebuild { .. } => {}
        }
    }
}

fn set_optional(table: &mut Table, column: &str, optional: bool) {
    if let Some(column) = table.column_mut(column) {
        column.optional = optional;
    }
}

fn rename(table: &mut Table, from: &str, to: &str) {
    if let Some(column) = table.column_mut(from) {
        to.clone_into(&mut column.name);
    }
    if table.primary == from {
        to.clone_into(&mut table.primary);
    }
    for check in table.checks.iter_mut().filter(|c| c.column == from) {
        to.clone_into(&mut check.column);
    }
    let indexes = std::mem::take(&mut table.indexes);
    table.indexes = indexes.into_iter().map(|i| i.renamed(from, to)).collect();
}
