//! The data steps of new and changed columns.

use linchpin_core::Value;
use linchpin_core::schema::{
    Column, ColumnKind, CounterSnapshot, EntitySnapshot, FieldDefault, FieldSnapshot, Index, Table,
};

use super::Lowering;
use super::alter::on_present_columns;
use super::entity::{is_replaced, replacement, same_field};
use crate::check::key_of;
use crate::data::{Counted, DataAction, FillValue};
use crate::pairs::{self, EntityPair, FieldPair};
use crate::step::{Phase, Risk};

impl Lowering<'_> {
    /// Adds the data steps of new, replaced and newly required columns.
    pub(super) fn backfill(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        let entity = after.storage_name.clone();
        let Some(key) = self.tables.get(&table).map(key_of) else {
            return;
        };
        for pair in pairs::fields(before, after) {
            match pair {
                // `compute` adds these after all others.
                FieldPair::New(_, field) if field.computed.is_some() => {}
                FieldPair::New(name, field) => {
                    self.fill(before, after, (&table, &key), (name, field));
                }
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, field),
                } if is_replaced(was, field) => {
                    let (next, source) = replacement(&field.column);
                    let Some(transform) = self.transform(&entity, name) else {
                        continue;
                    };
                    let named = |name: String, of: &FieldSnapshot| Column {
                        name,
                        optional: true,
                        default: None,
                        ..of.column()
                    };
                    let data = DataAction::Transform {
                        table: table.clone(),
                        key: key.clone(),
                        from: was.column(),
                        next: named(next, field),
                        source: named(source, was),
                        transform,
                        required: !field.optional,
                        null: default_value(field).filter(|_| !field.optional),
                    };
                    self.data(Phase::Backfill, Risk::Transform, &entity, data);
                }
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, field),
                } => {
                    if was.optional && !field.optional {
                        self.fill(
                            before,
                            after,
                            (&table, &key),
                            (
                                name,
                                &FieldSnapshot {
                                    column: was.column.clone(),
                                    ..field.clone()
                                },
                            ),
                        );
                    }
                }
                FieldPair::Gone(..) => {}
            }
        }
    }

    /// Adds the data steps of computed fields, then the indexes on filled columns. Runs after
    /// [`backfill`](Self::backfill), which fills the fields that they are computed from.
    pub(super) fn compute(&mut self, before: &EntitySnapshot, after: &EntitySnapshot) {
        let table = before.storage_name.clone();
        let entity = after.storage_name.clone();
        for pair in pairs::fields(before, after) {
            let (name, field, column) = match pair {
                FieldPair::New(name, field) => (name, field, &field.column),
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, field),
                } if !is_replaced(was, field) && !same_computed(before, after, was, field) => {
                    (name, field, &was.column)
                }
                FieldPair::Kept { .. } | FieldPair::Gone(..) => continue,
            };
            if field.computed.is_some() {
                self.recompute((before, after), (name, field), column);
            }
        }
        let (own, others) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(of, _)| *of == entity);
        self.late = others;
        let own: Vec<(String, Index)> = own;
        for (_, index) in own {
            let index = on_present_columns(before, after, index);
            self.index(Phase::Backfill, &entity, &table, index, true);
        }
    }

    /// Adds the step that fills a field in rows without a value. The values come from the transform
    /// of the field. Without a transform, a required field gets its default, or the value that the
    /// framework writes. Without any of them, no step is added.
    fn fill(
        &mut self,
        before: &EntitySnapshot,
        after: &EntitySnapshot,
        (table, key): (&str, &Column),
        (name, field): (&str, &FieldSnapshot),
    ) {
        let entity = &after.storage_name;
        let column = Column {
            optional: true,
            default: None,
            ..field.column()
        };
        let (table, key) = (table.to_owned(), key.clone());
        if let Some(transform) = self.transform(entity, name) {
            let mut fields: Vec<(String, Column)> = before
                .fields
                .iter()
                .map(|(name, field)| (name.clone(), field.column()))
                .collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            let data = DataAction::FillTransform {
                table,
                key,
                column,
                transform,
                fields,
            };
            self.data(Phase::Backfill, Risk::Transform, entity, data);
            return;
        }
        if field.optional {
            return;
        }
        let existed = before.fields.contains_key(name) || !field.former_names.is_empty();
        let value = match default_value(field) {
            // The database fills a new column with its default.
            Some(FillValue::Literal(_)) if !existed => return,
            Some(value) => value,
            None => match hidden_value(after, name) {
                Some(value) => value,
                None => return,
            },
        };
        let data = DataAction::Fill {
            table,
            key,
            column,
            value,
        };
        self.data(Phase::Backfill, Risk::Data, entity, data);
    }

    /// Adds the data step of a computed field that is stored in `column`.
    fn recompute(
        &mut self,
        (before, after): (&EntitySnapshot, &EntitySnapshot),
        (name, field): (&str, &FieldSnapshot),
        column: &str,
    ) {
        let Some(table) = self.tables.get(&before.storage_name) else {
            return;
        };
        let inputs = field.computed.iter().flat_map(|of| &of.inputs);
        let inputs: Vec<&String> = inputs.collect();
        let mut fields = present_fields(table, before, after);
        fields.retain(|(field, _)| {
            let is_computed = after
                .fields
                .get(field)
                .is_some_and(|f| f.computed.is_some());
            !is_computed && (inputs.is_empty() || inputs.contains(&field))
        });
        let data = DataAction::Recompute {
            table: table.name.clone(),
            key: key_of(table),
            fields,
            entity: after.storage_name.clone(),
            field: name.to_owned(),
            column: Column {
                name: column.to_owned(),
                ..field.column()
            },
        };
        self.data(Phase::Backfill, Risk::Data, &after.storage_name, data);
    }

    /// Adds the data steps of counters that are new or count other records.
    pub(super) fn recount(&mut self, pairs: &[EntityPair<'_>]) {
        for pair in pairs {
            let EntityPair::Kept { before, after } = pair else {
                continue;
            };
            for counter in &after.counters {
                let known = before.counters.iter();
                let mut known =
                    known.filter(|old| same_counter(pairs, (before, after), old, counter));
                if known.next().is_some() {
                    continue;
                }
                let target = pairs.iter().find_map(|pair| match pair {
                    EntityPair::Kept { before, after } if after.storage_name == counter.target => {
                        Some((before, after))
                    }
                    _ => None,
                });
                let Some((was, is)) = target else { continue };
                let table = self.tables.get(&was.storage_name).cloned();
                let counted = self.tables.get(&before.storage_name).cloned();
                let (Some(table), Some(counted)) = (table, counted) else {
                    continue;
                };
                let Some(field) = is.fields.get(&counter.field) else {
                    continue;
                };
                let column = present_column(&table, was, is, &counter.field)
                    .unwrap_or_else(|| field.column.clone());
                let data = DataAction::Recount {
                    table: table.name.clone(),
                    key: key_of(&table),
                    column: Column {
                        name: column,
                        kind: ColumnKind::Integer,
                        optional: field.optional,
                        default: None,
                    },
                    entity: is.storage_name.clone(),
                    field: counter.field.clone(),
                    tenant: is.tenant.as_ref().and_then(|tenant| {
                        let mut fields = present_fields(&table, was, is).into_iter();
                        fields
                            .find(|(field, _)| *field == tenant.field)
                            .map(|(_, c)| c)
                    }),
                    counted: Box::new(Counted {
                        entity: after.storage_name.clone(),
                        table: counted.name.clone(),
                        key: key_of(&counted),
                        fields: present_fields(&counted, before, after),
                    }),
                };
                self.data(Phase::Backfill, Risk::Data, &is.storage_name, data);
            }
        }
    }
}

/// The default of a field as the value of a row; `None` without one.
pub(crate) fn default_value(field: &FieldSnapshot) -> Option<FillValue> {
    Some(match field.default.as_ref()? {
        FieldDefault::Literal { .. } => FillValue::Literal(field.literal()?),
        FieldDefault::Generated { kind } => match kind.as_str() {
            "uuid" => FillValue::Uuid,
            "cuid" => FillValue::Cuid,
            _ => FillValue::Now,
        },
    })
}

/// The value for existing records of a field that the framework writes: the first version, or the
/// expiry date of a record that is written now. `None` for another field.
fn hidden_value(entity: &EntitySnapshot, field: &str) -> Option<FillValue> {
    if entity
        .version
        .as_ref()
        .is_some_and(|version| version.field == field)
    {
        return Some(FillValue::Literal(Value::Int(1)));
    }
    let ttl = entity.ttl.as_ref().filter(|ttl| ttl.field == field)?;
    ttl.after.map(FillValue::After)
}

/// Whether a computed field has the same function on the same fields, perhaps under new names.
fn same_computed(
    before: &EntitySnapshot,
    after: &EntitySnapshot,
    was: &FieldSnapshot,
    is: &FieldSnapshot,
) -> bool {
    let (Some(was), Some(is)) = (&was.computed, &is.computed) else {
        return false;
    };
    let continues = |old: &String| {
        is.inputs
            .iter()
            .any(|new| same_field(before, after, old, new))
    };
    was.body == is.body && was.inputs.len() == is.inputs.len() && was.inputs.iter().all(continues)
}

/// Whether a counter counts the same records in the same field, perhaps under new names.
fn same_counter(
    pairs: &[EntityPair<'_>],
    (before, after): (&EntitySnapshot, &EntitySnapshot),
    was: &CounterSnapshot,
    is: &CounterSnapshot,
) -> bool {
    let same_target = pairs.iter().any(|pair| match pair {
        EntityPair::Kept { before, after } => {
            before.storage_name == was.target
                && after.storage_name == is.target
                && same_field(before, after, &was.field, &is.field)
        }
        _ => false,
    });
    same_target && same_field(before, after, &was.by, &is.by) && was.when == is.when
}

/// The fields of the later snapshot that have a column now, with their columns.
fn present_fields(
    table: &Table,
    before: &EntitySnapshot,
    after: &EntitySnapshot,
) -> Vec<(String, Column)> {
    pairs::fields(before, after)
        .into_iter()
        .filter_map(|pair| {
            let (name, column) = match pair {
                FieldPair::New(name, field) => (name, field.column.clone()),
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, is),
                } if is_replaced(was, is) => (name, replacement(&is.column).0),
                FieldPair::Kept {
                    before: (_, was),
                    after: (name, _),
                } => (name, was.column.clone()),
                FieldPair::Gone(..) => return None,
            };
            Some((name.to_owned(), table.column(&column)?.clone()))
        })
        .collect()
}

/// The present name of a field's column.
fn present_column(
    table: &Table,
    before: &EntitySnapshot,
    after: &EntitySnapshot,
    field: &str,
) -> Option<String> {
    pairs::fields(before, after)
        .into_iter()
        .find_map(|pair| match pair {
            FieldPair::Kept {
                before: (_, was),
                after: (name, _),
            } if name == field => Some(was.column.clone()),
            FieldPair::New(name, new) if name == field => Some(new.column.clone()),
            _ => None,
        })
        .filter(|column| table.column(column).is_some())
}
