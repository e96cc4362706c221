//! New tables, columns and indexes: steps that do not affect the previous binary.

use linchpin_core::schema::{Action, Column, EntitySnapshot, FieldSnapshot, Index};

use linchpin_core::layout::shortened;

use super::alter::{added, on_present_columns};
use super::{Lowering, Planned};
use crate::check::{Check, key_of};
use crate::pairs::{self, EntityPair, FieldPair};
use crate::step::{Phase, Work};

/// The names of the column that a transform fills, and of the column with copies of the old values
/// that it was computed from.
pub(crate) fn replacement(column: &str) -> (String, String) {
    let with = |suffix: &str| shortened(format!("{column}{suffix}"));
    (with("__next"), with("__src"))
}

impl Lowering<'_> {
    /// Adds the steps of a new entity.
    pub(super) fn create(&mut self, entity: &EntitySnapshot) {
        let table = entity.table();
        let name = table.name.clone();
        self.step(Planned {
            entity: &name,
            before: vec![Check::TableAbsent(name.clone())],
            inverse: Some(Action::DropTable {
                table: name.clone(),
            }),
            work: Work::Schema(Action::CreateTable {
                table: table.clone(),
            }),
            ..Planned::of(Phase::Expand)
        });
        // SQLite checks the newest unique index first, so there the first declared one is created
        // last.
        for index in self.ordered(table.indexes) {
            self.index(Phase::Expand, &name, &name, index, false);
        }
    }

    fn ordered(&self, indexes: Vec<Index>) -> Vec<Index> {
        let (mut unique, plain): (Vec<Index>, Vec<Index>) =
            indexes.into_iter().partition(|index| index.unique);
        if self.terrain.dialect.rebuilds() {
            unique.reverse();
        }
        unique.into_iter().chain(plain).collect()
    }

    /// Adds the step of a new index. `concurrently` is false for a table that the plan creates.
    pub(super) fn index(
        &mut self,
        phase: Phase,
        entity: &str,
        table: &str,
        mut index: Index,
        concurrently: bool,
    ) {
        // An index that a later step drops or renames may still have the name.
        let mut tables = self.tables.values();
        if tables.any(|table| table.index(&index.name).is_some()) {
            index.name = shortened(format!("{}__next", index.name));
        }
        let mut before = Vec::new();
        if index.unique
            && concurrently
            && let Some(table) = self.tables.get(table)
        {
            before.push(Check::NoDuplicates {
                table: table.name.clone(),
                key: key_of(table),
                index: index.clone(),
            });
        }
        self.step(Planned {
            entity,
            before,
            inverse: Some(Action::DropIndex {
                table: table.to_owned(),
                index: index.name.clone(),
            }),
            work: Work::Schema(Action::CreateIndex {
                table: table.to_owned(),
                index,
                concurrently,
            }),
            ..Planned::of(phase)
        });
    }

    /// Adds the steps that extend a table while the previous binary uses it.
    pub(super) fn expand(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        let mut late: Vec<String> = Vec::new();
        for pair in pairs::fields(before, after) {
            match pair {
                FieldPair::New(name, field) => {
                    let column = field.column();
                    let needs_fill = !column.optional && column.default.is_none();
                    if needs_fill || field.computed.is_some() {
                        late.push(column.name.clone());
                    }
                    if needs_fill || (field.computed.is_some() && !field.optional) {
                        let reason = format!("`{name}` must be filled before it can be read");
                        self.fence.get_or_insert(reason);
                    }
                    self.add(
                        after,
                        &table,
                        Column {
                            optional: column.optional || needs_fill,
                            ..column
                        },
                    );
                }
                FieldPair::Kept {
                    before: (earlier, was),
                    after: (name, field),
                } if is_replaced(was, field) => {
                    let (next, source) = replacement(&field.column);
                    late.push(field.column.clone());
                    let add = |name: String, of: &FieldSnapshot| Column {
                        name,
                        optional: true,
                        default: None,
                        ..of.column()
                    };
                    self.add(after, &table, add(next, field));
                    self.add(after, &table, add(source, was));
                    self.keep_earlier_column((before, after), (earlier, was), (name, field));
                }
                FieldPair::Gone(was) => {
                    // The new binary writes the same value to every record, and a unique index
                    // accepts it only once.
                    let unique = before.table().indexes.into_iter();
                    let in_unique = unique.filter(|i| i.unique).any(|i| i.reads(&was.column));
                    if in_unique && !was.optional {
                        let reason =
                            format!("`{}` is dropped, but it is in a unique index", was.column);
                        self.fence.get_or_insert(reason);
                    }
                }
                FieldPair::Kept { .. } => {}
            }
        }
        for index in added(before, after) {
            let waits = late.iter().any(|column| index.reads(column));
            if waits {
                self.late.push((after.storage_name.clone(), index));
            } else {
                let index = on_present_columns(before, after, index);
                self.index(Phase::Expand, &after.storage_name, &table, index, true);
            }
        }
        for reference in &after.checks {
            let known = before.checks.iter().any(|known| {
                known.target == reference.target
                    && known.on_delete.is_some() == reference.on_delete.is_some()
                    && same_field(before, after, &known.field, &reference.field)
            });
            if !known {
                self.orphans(before, after, reference);
            }
        }
    }

    fn add(&mut self, after: &EntitySnapshot, table: &str, column: Column) {
        self.step(Planned {
            entity: &after.storage_name,
            inverse: Some(Action::DropColumn {
                table: table.to_owned(),
                column: column.name.clone(),
            }),
            work: Work::Schema(Action::AddColumn {
                table: table.to_owned(),
                column,
            }),
            ..Planned::of(Phase::Expand)
        });
    }

    /// Adds the check of a field that becomes a reference: from now on, its value must be the key
    /// of a record of another table.
    fn orphans(
        &mut self,
        before: &EntitySnapshot,
        after: &EntitySnapshot,
        reference: &linchpin_core::schema::ReferenceSnapshot,
    ) {
        let Some(target) = self.link.after.entities.get(&reference.target) else {
            return;
        };
        let column = pairs::fields(before, after)
            .iter()
            .find_map(|pair| match pair {
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, _),
                } if *name == reference.field => Some(was.column.clone()),
                _ => None,
            });
        let (Some(column), Some(table)) = (column, self.tables.get(&before.storage_name)) else {
            return;
        };
        // The table of the other entity may still have its earlier name.
        let present = pairs::entities(self.link.before, self.link.after)
            .into_iter()
            .find_map(|pair| match pair {
                EntityPair::Kept { before, after } if after.storage_name == target.storage_name => {
                    Some(before)
                }
                _ => None,
            });
        let Some(present) = present else { return };
        let check = Check::NoOrphans {
            table: table.name.clone(),
            key: key_of(table),
            column,
            target: present.storage_name.clone(),
            target_key: present.table().primary,
            target_name: target.name.clone(),
        };
        self.step(Planned {
            entity: &after.storage_name,
            before: vec![check],
            work: Work::Check {
                table: table.name.clone(),
                column: reference.field.clone(),
            },
            ..Planned::of(Phase::Expand)
        });
    }
}

/// Whether a field of the later snapshot is the same as one of the earlier, perhaps renamed.
pub(super) fn same_field(
    before: &EntitySnapshot,
    after: &EntitySnapshot,
    was: &str,
    is: &str,
) -> bool {
    pairs::fields(before, after).iter().any(|pair| {
        matches!(pair, FieldPair::Kept { before: (a, _), after: (b, _) } if *a == was && *b == is)
    })
}

/// Whether a change of a field needs a new column: another type, or another shape of its items.
pub(crate) fn is_replaced(was: &FieldSnapshot, is: &FieldSnapshot) -> bool {
    was.kind != is.kind || was.item != is.item
}
