//! Indexes on renamed columns, and steps that widen, replace or rebuild constraints and tables.

use linchpin_core::schema::{
    Action, Check as TableCheck, CheckRule, Column, ColumnKind, EntitySnapshot, Index, Table,
    check_name,
};
use linchpin_core::store::layout::shortened;

use super::entity::{is_replaced, replacement};
use super::{Lowering, Planned};
use crate::check::Check;
use crate::pairs::{self, FieldPair};
use crate::step::{Phase, Risk, Work};

/// An index of both snapshots: its names before and after.
pub(super) struct KeptIndex {
    pub(super) before: String,
    pub(super) after: Index,
}

impl Lowering<'_> {
    /// Adds steps for constraints that accept more values, and for defaults. The previous binary
    /// may not know the new values, so the steps for constraints wait until it no longer serves.
    pub(super) fn widen(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        let entity = after.storage_name.clone();
        let Some(present) = self.tables.get(&table).cloned() else {
            return;
        };
        let mut wider = present.clone();
        let mut risk = Risk::Safe;
        for pair in pairs::fields(before, after) {
            let FieldPair::Kept {
                before: (_, was),
                after: (_, is),
            } = pair
            else {
                continue;
            };
            if is_replaced(was, is) {
                continue;
            }
            let (old, new) = (was.column(), is.column());
            let Some(column) = wider.columns.iter_mut().find(|c| c.name == old.name) else {
                continue;
            };
            if !old.optional && new.optional {
                column.optional = true;
                risk = Risk::Widening;
            }
            if let (ColumnKind::Enum(had), ColumnKind::Enum(has)) = (&old.kind, &new.kind)
                && has.iter().any(|value| !had.contains(value))
            {
                let mut all: Vec<String> = had.iter().chain(has).cloned().collect();
                all.sort();
                all.dedup();
                column.kind = ColumnKind::Enum(all);
                risk = Risk::Widening;
            }
            // The new default applies from this step on. A narrower enum keeps its old values until
            // the contract phase.
            column.default = new.default;
        }
        if wider == present {
            return;
        }
        if self.terrain.dialect.rebuilds() {
            self.rebuild(
                Phase::Expand,
                risk,
                &entity,
                (present, wider),
                &[],
                Vec::new(),
            );
            return;
        }
        for (was, is) in present.columns.iter().zip(&wider.columns) {
            self.alter_column(Phase::Expand, &entity, &table, was, is);
        }
    }

    /// Adds the steps that change a column and keep its name, on a store that alters constraints.
    pub(super) fn alter_column(
        &mut self,
        phase: Phase,
        entity: &str,
        table: &str,
        was: &Column,
        is: &Column,
    ) {
        let column = was.name.clone();
        let (table, entity) = (table.to_owned(), entity.to_owned());
        let risk = if phase == Phase::Contract {
            Risk::Breaking
        } else {
            Risk::Widening
        };
        let schema = |lowering: &mut Self, risk, action, inverse| {
            lowering.step(Planned {
                risk,
                entity: &entity,
                work: Work::Schema(action),
                inverse,
                ..Planned::of(phase)
            });
        };
        if was.default != is.default {
            let set = |default: &Column| Action::SetDefault {
                table: table.clone(),
                column: column.clone(),
                default: default.default.clone(),
            };
            let risk = if phase == Phase::Contract {
                Risk::Breaking
            } else {
                Risk::Safe
            };
            schema(self, risk, set(is), Some(set(was)));
        }
        if !was.optional && is.optional {
            let action = Action::DropNotNull {
                table: table.clone(),
                column: column.clone(),
            };
            schema(self, risk, action, None);
        }
        if let (ColumnKind::Enum(had), ColumnKind::Enum(values)) = (&was.kind, &is.kind)
            && had != values
        {
            let check = check_name(&table, &format!("{column}__next"));
            let rule = CheckRule::Values(values.clone());
            self.add_check(phase, risk, &entity, &table, &column, &check, rule);
            let action = Action::ReplaceCheck {
                table: table.clone(),
                column: column.clone(),
                check,
            };
            schema(self, risk, action, None);
        }
        if was.optional && !is.optional {
            let check = check_name(&table, &format!("{column}__not_null"));
            let rule = CheckRule::NotNull;
            self.add_check(phase, risk, &entity, &table, &column, &check, rule);
            let action = Action::SetNotNull {
                table: table.clone(),
                column: column.clone(),
            };
            schema(self, risk, action, None);
            let action = Action::DropCheck {
                table: table.clone(),
                check,
            };
            schema(self, risk, action, None);
        }
        if was.optional != is.optional {
            self.rewrite_indexes(phase, risk, &entity, &table, was);
        }
    }

    /// Recreates the indexes whose definition depends on whether a column allows null. `was` is the
    /// column before the change.
    fn rewrite_indexes(
        &mut self,
        phase: Phase,
        risk: Risk,
        entity: &str,
        table: &str,
        was: &Column,
    ) {
        let Some(after) = self.tables.get(table).cloned() else {
            return;
        };
        let mut before = after.clone();
        for column in before.columns.iter_mut().filter(|c| c.name == was.name) {
            column.optional = was.optional;
        }
        let dialect = self.terrain.dialect;
        for index in &after.indexes {
            if !dialect.rewrites_index(index, &before, &after) {
                continue;
            }
            let next = Index {
                name: shortened(format!("{}__next", index.name)),
                ..index.clone()
            };
            let (table, name) = (table.to_owned(), index.name.clone());
            for action in [
                Action::CreateIndex {
                    table: table.clone(),
                    index: next.clone(),
                    concurrently: true,
                },
                Action::DropIndex {
                    table: table.clone(),
                    index: name.clone(),
                },
                Action::RenameIndex {
                    table,
                    from: next.name,
                    to: name,
                },
            ] {
                self.step(Planned {
                    risk,
                    entity,
                    work: Work::Schema(action),
                    ..Planned::of(phase)
                });
            }
        }
    }

    /// Adds a check in two steps: one adds it without a scan of the table, the other one validates
    /// it while other sessions write.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of them name parts of one check"
    )]
    fn add_check(
        &mut self,
        phase: Phase,
        risk: Risk,
        entity: &str,
        table: &str,
        column: &str,
        name: &str,
        rule: CheckRule,
    ) {
        let check = TableCheck {
            name: name.to_owned(),
            column: column.to_owned(),
            rule,
            valid: false,
        };
        let add = Action::AddCheck {
            table: table.to_owned(),
            check,
        };
        let drop = Action::DropCheck {
            table: table.to_owned(),
            check: name.to_owned(),
        };
        let validate = Action::ValidateCheck {
            table: table.to_owned(),
            check: name.to_owned(),
        };
        for (action, inverse) in [(add, Some(drop)), (validate, None)] {
            self.step(Planned {
                risk,
                entity,
                work: Work::Schema(action),
                inverse,
                ..Planned::of(phase)
            });
        }
    }

    /// Rebuilds a table with other columns and constraints. `renames` are the new and the present
    /// names of renamed columns.
    pub(super) fn rebuild(
        &mut self,
        phase: Phase,
        risk: Risk,
        entity: &str,
        (from, to): (Table, Table),
        renames: &[(String, String)],
        mut before: Vec<Check>,
    ) {
        before.push(Check::FreeSpace(from.name.clone()));
        let present = |name: &String| {
            renames
                .iter()
                .find(|(new, _)| new == name)
                .map_or(name, |(_, present)| present)
                .clone()
        };
        let columns = to
            .columns
            .iter()
            .map(|column| (column.name.clone(), present(&column.name)))
            .filter(|(_, present)| from.column(present).is_some())
            .collect();
        self.step(Planned {
            risk,
            entity,
            before,
            work: Work::Schema(Action::Rebuild { from, to, columns }),
            ..Planned::of(phase)
        });
    }
}

/// Indexes that both snapshots have, perhaps on renamed columns and under another name.
pub(super) fn kept(before: &EntitySnapshot, after: &EntitySnapshot) -> Vec<KeptIndex> {
    let (old, mut new) = (before.table().indexes, after.table().indexes);
    let mut kept = Vec::new();
    for index in old {
        let name = index.name.clone();
        let Some(index) = on_later_columns(before, after, index) else {
            continue;
        };
        let same = |other: &Index| {
            other.unique == index.unique && other.keys == index.keys && other.only == index.only
        };
        // An index with the same name is preferred: two indexes may differ in their names only.
        let at = new
            .iter()
            .position(|other| same(other) && other.name == name)
            .or_else(|| new.iter().position(same));
        if let Some(at) = at {
            kept.push(KeptIndex {
                before: name,
                after: new.remove(at),
            });
        }
    }
    kept
}

/// Indexes that only the later snapshot has, on the columns of the later snapshot.
pub(super) fn added(before: &EntitySnapshot, after: &EntitySnapshot) -> Vec<Index> {
    let kept = kept(before, after);
    let mut all = after.table().indexes;
    all.retain(|index| !kept.iter().any(|kept| kept.after.name == index.name));
    all
}

/// The names of indexes that only the earlier snapshot has.
pub(super) fn dropped(before: &EntitySnapshot, after: &EntitySnapshot) -> Vec<String> {
    let kept = kept(before, after);
    before
        .table()
        .indexes
        .into_iter()
        .map(|index| index.name)
        .filter(|name| !kept.iter().any(|kept| kept.before == *name))
        .collect()
}

/// An index of the later snapshot, with the names that columns have until the contract phase.
pub(super) fn on_present_columns(
    before: &EntitySnapshot,
    after: &EntitySnapshot,
    index: Index,
) -> Index {
    let mut renames = Vec::new();
    for pair in pairs::fields(before, after) {
        if let FieldPair::Kept {
            before: (_, was),
            after: (_, is),
        } = pair
        {
            let present = if is_replaced(was, is) {
                replacement(&is.column).0
            } else {
                was.column.clone()
            };
            renames.push((is.column.clone(), present));
        }
    }
    with_columns(index, &renames)
}

/// An index of the earlier snapshot, with the column names of the later one. `None` if a column of
/// the index is gone or replaced.
fn on_later_columns(
    before: &EntitySnapshot,
    after: &EntitySnapshot,
    index: Index,
) -> Option<Index> {
    let mut renames = Vec::new();
    for pair in pairs::fields(before, after) {
        match pair {
            FieldPair::Kept {
                before: (_, was),
                after: (_, is),
            } if !is_replaced(was, is) => renames.push((was.column.clone(), is.column.clone())),
            FieldPair::Kept {
                before: (_, was), ..
            }
            | FieldPair::Gone(was) => {
                if index.reads(&was.column) {
                    return None;
                }
            }
            FieldPair::New(..) => {}
        }
    }
    Some(with_columns(index, &renames))
}

/// Renames all columns of an index together, because two columns may exchange their names.
fn with_columns(index: Index, renames: &[(String, String)]) -> Index {
    // First temporary names that no column has.
    let mut parked = index;
    for (at, (from, _)) in renames.iter().enumerate() {
        parked = parked.renamed(from, &format!("\u{0}{at}"));
    }
    for (at, (_, to)) in renames.iter().enumerate() {
        parked = parked.renamed(&format!("\u{0}{at}"), to);
    }
    parked
}
