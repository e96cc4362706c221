//! The steps after which the previous binary cannot serve: constraints that accept less, removed
//! objects, and new names.

use linchpin_core::schema::{
    Action, Column, ColumnKind, EntitySnapshot, FieldSnapshot, Index, Table,
};

use super::alter::dropped;
use super::entity::{is_replaced, replacement};
use super::{Lowering, Planned};
use crate::check::{Check, key_of};
use crate::data::DataAction;
use crate::pairs::{self, FieldPair};
use crate::step::{Phase, Risk, Work};

impl Lowering<'_> {
    /// Adds the contract steps of an entity that both snapshots have.
    pub(super) fn contract(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let entity = after.storage_name.clone();
        self.catch_up(before, after);
        let Some(present) = self.tables.get(&before.storage_name).cloned() else {
            return;
        };
        let conditions = self.conditions(before, after, &present);
        if self.terrain.dialect.rebuilds() {
            self.contract_by_rebuild(before, after, present, conditions);
        } else {
            self.contract_by_alter(before, after, conditions);
        }
        if before.storage_name != after.storage_name {
            // A development start may have added a table of the new name.
            if self.tables.contains_key(&entity) {
                self.drop_table(&entity);
            }
            self.step(Planned {
                risk: Risk::Breaking,
                entity: &entity,
                before: vec![Check::TableAbsent(after.storage_name.clone())],
                work: Work::Schema(Action::RenameTable {
                    from: before.storage_name.clone(),
                    to: after.storage_name.clone(),
                }),
                ..Planned::of(Phase::Contract)
            });
        }
        self.rename_indexes(after);
    }

    /// Adds the data steps of the entity again, because the previous binary may have written rows
    /// after their first run.
    fn catch_up(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let again: Vec<(Risk, DataAction)> = self
            .steps
            .iter()
            .filter(|step| step.entity == after.storage_name && step.phase == Phase::Backfill)
            .filter_map(|step| match &step.work {
                Work::Data(data) => Some((step.risk, data.clone())),
                _ => None,
            })
            .collect();
        for (risk, data) in again {
            let stale = match &data {
                DataAction::Transform { .. } => data.stale(self.terrain.dialect),
                _ => None,
            };
            let table = before.storage_name.clone();
            self.step(Planned {
                risk,
                entity: &after.storage_name,
                work: Work::Data(data),
                after: stale
                    .map(|stale| Check::RowsFilled { table, stale })
                    .into_iter()
                    .collect(),
                ..Planned::of(Phase::Contract)
            });
        }
    }

    /// The conditions of constraints that accept less than before, by column.
    fn conditions(
        &self,
        before: &EntitySnapshot,
        after: &EntitySnapshot,
        present: &Table,
    ) -> Vec<(String, Check)> {
        let key = key_of(present);
        let mut all = Vec::new();
        for pair in pairs::fields(before, after) {
            let (column, was, name, is): (String, Option<&FieldSnapshot>, &str, _) = match pair {
                FieldPair::New(name, field) => (field.column.clone(), None, name, field),
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, is),
                } if is_replaced(was, is) => (replacement(&is.column).0, None, name, is),
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, is),
                } => (was.column.clone(), Some(was), name, is),
                FieldPair::Gone(..) => continue,
            };
            let Some(now) = present.column(&column) else {
                continue;
            };
            let new = is.column();
            if now.optional && !new.optional {
                all.push((
                    column.clone(),
                    Check::NoNulls {
                        table: present.name.clone(),
                        key: key.clone(),
                        column: column.clone(),
                    },
                ));
            }
            if let (Some(was), ColumnKind::Enum(values)) = (was, &new.kind)
                && let ColumnKind::Enum(had) = was.column_kind()
                && had.iter().any(|value| !values.contains(value))
            {
                all.push((
                    column.clone(),
                    Check::OnlyValues {
                        table: present.name.clone(),
                        key: key.clone(),
                        column,
                        values: values.clone(),
                        sensitive: self.is_sensitive(&after.storage_name, name),
                    },
                ));
            }
        }
        all
    }

    /// Adds the contract steps on a store that cannot alter constraints: one rebuild of the table
    /// if one is needed, else renames.
    fn contract_by_rebuild(
        &mut self,
        before: &EntitySnapshot,
        after: &EntitySnapshot,
        present: Table,
        conditions: Vec<(String, Check)>,
    ) {
        let entity = after.storage_name.clone();
        let mut renames = Vec::new();
        let mut gone = false;
        let mut replaced = false;
        for pair in pairs::fields(before, after) {
            match pair {
                FieldPair::Gone(..) => gone = true,
                FieldPair::Kept {
                    before: (_, was),
                    after: (_, is),
                } if is_replaced(was, is) => {
                    replaced = true;
                    renames.push((is.column.clone(), replacement(&is.column).0));
                }
                FieldPair::Kept {
                    before: (_, was),
                    after: (_, is),
                } if was.column != is.column => {
                    renames.push((is.column.clone(), was.column.clone()));
                }
                _ => {}
            }
        }
        let target = Table {
            name: present.name.clone(),
            ..after.table()
        };
        // A development start may have added a column of a new name.
        let taken = renames.iter().any(|(to, _)| is_taken(before, &present, to));
        let in_place = !gone
            && !replaced
            && !taken
            && conditions.is_empty()
            && target.columns.iter().all(|column| {
                let was = renames.iter().find(|(new, _)| *new == column.name);
                let name = was.map_or(&column.name, |(_, present)| present);
                let same = present.column(name).is_some_and(|now| {
                    now.kind == column.kind
                        && now.optional == column.optional
                        && now.default == column.default
                });
                let moved = was.is_some() || before.storage_name != after.storage_name;
                same && !(moved && has_named_check(&column.kind))
            });
        if in_place {
            self.drop_indexes(before, after);
            self.rename_columns(&entity, &present.name, &renames);
            return;
        }
        let risk = if gone || replaced || taken {
            Risk::Destructive
        } else {
            Risk::Breaking
        };
        let conditions = conditions.into_iter().map(|(_, check)| check).collect();
        self.rebuild(
            Phase::Contract,
            risk,
            &entity,
            (present, target),
            &renames,
            conditions,
        );
    }

    /// Adds the contract steps on a store that alters constraints: one step for each constraint.
    fn contract_by_alter(
        &mut self,
        before: &EntitySnapshot,
        after: &EntitySnapshot,
        mut conditions: Vec<(String, Check)>,
    ) {
        let entity = after.storage_name.clone();
        let table = before.storage_name.clone();
        self.drop_draft_columns(before, after);
        self.drop_indexes(before, after);
        let mut renames = Vec::new();
        for pair in pairs::fields(before, after) {
            let (present, is, was) = match pair {
                FieldPair::New(_, field) => (field.column.clone(), field, None),
                FieldPair::Kept {
                    before: (_, was),
                    after: (_, is),
                } if is_replaced(was, is) => (replacement(&is.column).0, is, Some(was)),
                FieldPair::Kept {
                    before: (_, was),
                    after: (_, is),
                } => {
                    if was.column != is.column {
                        renames.push((is.column.clone(), was.column.clone()));
                    }
                    (was.column.clone(), is, None)
                }
                FieldPair::Gone(..) => continue,
            };
            let Some(now) = self
                .tables
                .get(&table)
                .and_then(|t| t.column(&present))
                .cloned()
            else {
                continue;
            };
            let target = Column {
                name: present.clone(),
                ..is.column()
            };
            let first = self.steps.len();
            self.alter_column(Phase::Contract, &entity, &table, &now, &target);
            // The first step on the column gets its conditions.
            let (own, rest) = conditions
                .into_iter()
                .partition(|(column, _)| *column == present);
            conditions = rest;
            let own: Vec<(String, Check)> = own;
            if let Some(step) = self.steps.get_mut(first) {
                step.before.extend(own.into_iter().map(|(_, check)| check));
            }
            if let Some(was) = was {
                self.step(Planned {
                    risk: Risk::Destructive,
                    entity: &entity,
                    work: Work::Schema(Action::SwapColumn {
                        table: table.clone(),
                        old: was.column.clone(),
                        next: present,
                        source: replacement(&is.column).1,
                        name: is.column.clone(),
                    }),
                    ..Planned::of(Phase::Contract)
                });
            }
        }
        for pair in pairs::fields(before, after) {
            if let FieldPair::Gone(field) = pair {
                self.step(Planned {
                    risk: Risk::Destructive,
                    entity: &entity,
                    work: Work::Schema(Action::DropColumn {
                        table: table.clone(),
                        column: field.column.clone(),
                    }),
                    ..Planned::of(Phase::Contract)
                });
            }
        }
        self.rename_columns(&entity, &table, &renames);
    }

    /// Removes columns that a development start added under the new names of fields.
    fn drop_draft_columns(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        let mut columns = Vec::new();
        let mut indexes = Vec::new();
        for pair in pairs::fields(before, after) {
            let (FieldPair::Kept { after: (_, is), .. }, Some(present)) =
                (pair, self.tables.get(&table))
            else {
                continue;
            };
            if is_taken(before, present, &is.column) {
                let affected = present.indexes.iter().filter(|i| i.reads(&is.column));
                indexes.extend(affected.map(|index| index.name.clone()));
                columns.push(is.column.clone());
            }
        }
        indexes.sort();
        indexes.dedup();
        let drops = indexes.into_iter().map(|index| Action::DropIndex {
            table: table.clone(),
            index,
        });
        let drops = drops.chain(columns.into_iter().map(|column| Action::DropColumn {
            table: table.clone(),
            column,
        }));
        for action in drops.collect::<Vec<_>>() {
            self.step(Planned {
                risk: Risk::Destructive,
                entity: &after.storage_name,
                work: Work::Schema(action),
                ..Planned::of(Phase::Contract)
            });
        }
    }

    /// Removes a table with its records.
    pub(super) fn drop_table(&mut self, table: &str) {
        self.step(Planned {
            risk: Risk::Destructive,
            entity: table,
            work: Work::Schema(Action::DropTable {
                table: table.to_owned(),
            }),
            ..Planned::of(Phase::Contract)
        });
    }

    fn drop_indexes(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        for index in dropped(before, after) {
            let exists = self
                .tables
                .get(&table)
                .is_some_and(|table| table.index(&index).is_some());
            if exists {
                self.step(Planned {
                    risk: Risk::Breaking,
                    entity: &after.storage_name,
                    work: Work::Schema(Action::DropIndex {
                        table: table.clone(),
                        index,
                    }),
                    ..Planned::of(Phase::Contract)
                });
            }
        }
    }

    fn rename_columns(&mut self, entity: &str, table: &str, renames: &[(String, String)]) {
        for (to, from) in renames {
            self.step(Planned {
                risk: Risk::Breaking,
                entity,
                work: Work::Schema(Action::RenameColumn {
                    table: table.to_owned(),
                    from: from.clone(),
                    to: to.clone(),
                }),
                ..Planned::of(Phase::Contract)
            });
        }
    }

    /// Renames indexes to their final names. An index has another name if its table or a column was
    /// renamed, or if another index had the name until now.
    fn rename_indexes(&mut self, after: &EntitySnapshot) {
        let table = after.storage_name.clone();
        let wanted = after.table().indexes;
        let same =
            |a: &Index, b: &Index| a.unique == b.unique && a.keys == b.keys && a.only == b.only;
        loop {
            let Some(present) = self.tables.get(&table) else {
                return;
            };
            let next = wanted.iter().find_map(|index| {
                if present.index(&index.name).is_some() {
                    return None;
                }
                // An index with the same content. Its present name is not the final name of any
                // index.
                let can_be_renamed = |other: &&Index| {
                    same(other, index) && !wanted.iter().any(|wanted| wanted.name == other.name)
                };
                let other = present.indexes.iter().find(can_be_renamed)?;
                Some((other.name.clone(), index.name.clone()))
            });
            let Some((from, to)) = next else { return };
            self.step(Planned {
                risk: Risk::Breaking,
                entity: &after.storage_name,
                work: Work::Schema(Action::RenameIndex {
                    table: table.clone(),
                    from,
                    to,
                }),
                ..Planned::of(Phase::Contract)
            });
        }
    }
}

/// Whether a table has a column that no field of the earlier snapshot has.
fn is_taken(before: &EntitySnapshot, present: &Table, column: &str) -> bool {
    let mut fields = before.fields.values();
    present.column(column).is_some() && !fields.any(|field| field.column == column)
}

/// Whether a store that rebuilds tables creates a check for columns of this kind. The name of such
/// a check contains the name of the column.
fn has_named_check(kind: &ColumnKind) -> bool {
    matches!(
        kind,
        ColumnKind::Enum(_) | ColumnKind::Boolean | ColumnKind::StringArray | ColumnKind::Json
    )
}
