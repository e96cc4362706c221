//! The names of tables and columns in a database while migrations are open. A binary uses them in
//! its statements.

mod kept;

use std::collections::{BTreeMap, BTreeSet};

use linchpin_core::schema::{
    Column, ColumnKind, EntitySnapshot, FieldSnapshot, Snapshot, Table, Tables,
};
use linchpin_core::store::{Filler, Names, Pending, TableNames};
use linchpin_core::{Timestamp, Value};

use self::kept::Changed;
pub(crate) use self::kept::Functions;
use crate::chain::Migration;
use crate::error::Refusal;
use crate::pairs::{self, EntityPair, FieldPair};

/// All names of an object, from the installed snapshot to the declared one.
type NameHistory = Vec<String>;

/// The names of the table of an entity, and the names of its columns by field.
#[derive(Clone, Debug, Default)]
struct EntityNames {
    table: NameHistory,
    columns: BTreeMap<String, NameHistory>,
    /// The fields that get another type, and whose earlier column is kept up to date.
    changed: BTreeMap<String, Changed>,
}

/// The installed snapshot, or the snapshot after an open migration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// The open migration that leads to it; `None` for the installed snapshot.
    pub(crate) migration: Option<&'a Migration>,
}

/// Returns the present names of all declared tables and columns. `stages` are the installed
/// snapshot and those of the open migrations up to the declared one; `real` are the present tables.
///
/// # Errors
/// `transform_missing` or `transform_changed` if the binary lacks a function that converts between
/// the two columns of a field.
pub(crate) fn names(
    epoch: u64,
    stages: &[Stage<'_>],
    (declared, functions): (&Snapshot, Functions<'_>),
    real: &Tables,
) -> Result<Names, Refusal> {
    let mut names = Names {
        epoch,
        tables: BTreeMap::new(),
    };
    let histories = histories(stages, declared);
    for (storage_name, entity) in &declared.entities {
        let Some(histories) = histories.get(storage_name) else {
            continue;
        };
        let exists = |name: &&String| real.contains_key(*name);
        let Some(table) = histories.table.iter().rev().find(exists) else {
            continue;
        };
        let table_names = table_names(entity, histories, &real[table], functions)?;
        let declared_names = TableNames::new(storage_name.clone());
        if table_names != declared_names {
            names.tables.insert(storage_name.clone(), table_names);
        }
    }
    Ok(names)
}

fn table_names(
    entity: &EntitySnapshot,
    histories: &EntityNames,
    real: &Table,
    functions: Functions<'_>,
) -> Result<TableNames, Refusal> {
    let mut names = TableNames::new(real.name.clone());
    let mut used = BTreeSet::new();
    for (name, field) in &entity.fields {
        let changed = histories.changed.get(name);
        if let Some((changed, columns)) = changed.and_then(|c| Some((c, c.columns(real)?))) {
            used.extend(columns);
            let [next, ..] = columns;
            names.columns.insert(name.clone(), next.to_owned());
            let replaced = changed.replaced(columns, functions)?;
            names.replaced.insert(name.clone(), replaced);
            continue;
        }
        let Some(history) = histories.columns.get(name) else {
            continue;
        };
        let Some(column) = history.iter().rev().find_map(|name| real.column(name)) else {
            continue;
        };
        used.insert(column.name.as_str());
        if column.name != field.column {
            names.columns.insert(name.clone(), column.name.clone());
        }
        names.pending.extend(pending(column, field));
    }
    let columns = real.columns.iter();
    let unused = columns.filter(|column| !used.contains(column.name.as_str()));
    names.fillers = unused.filter_map(filler).collect();
    Ok(names)
}

/// The values that a column accepts, if its constraint still refuses values that the declaration
/// allows.
fn pending(column: &Column, field: &FieldSnapshot) -> Option<Pending> {
    let refuses_null = field.optional && !column.optional;
    let values = match (&column.kind, field.column_kind()) {
        (ColumnKind::Enum(accepted), ColumnKind::Enum(declared)) => {
            let refuses = declared.iter().any(|value| !accepted.contains(value));
            refuses.then(|| accepted.clone())
        }
        _ => None,
    };
    (refuses_null || values.is_some()).then(|| Pending {
        column: column.name.clone(),
        null: column.optional,
        values,
    })
}

/// The value in new records for a column without a declared field; `None` if the column allows null
/// or has a default.
fn filler(column: &Column) -> Option<Filler> {
    if column.optional || column.default.is_some() {
        return None;
    }
    let value = match &column.kind {
        ColumnKind::String => Value::Text(String::new()),
        ColumnKind::Enum(values) => Value::Text(values.first()?.clone()),
        ColumnKind::Boolean => Value::Bool(false),
        ColumnKind::Integer => Value::Int(0),
        ColumnKind::Number => Value::Float(0.0),
        ColumnKind::Date => Value::Date(Timestamp::from_millis(0)),
        ColumnKind::StringArray => Value::Strings(Vec::new()),
        ColumnKind::Json => Value::Json("null".to_owned()),
    };
    Some(Filler {
        column: column.name.clone(),
        value,
        kind: column.kind.clone(),
    })
}

/// Collects the names of every declared object since the installed snapshot.
fn histories(stages: &[Stage<'_>], declared: &Snapshot) -> BTreeMap<String, EntityNames> {
    let mut all = BTreeMap::new();
    let mut before: Option<&Snapshot> = None;
    let last = Stage {
        snapshot: declared,
        migration: None,
    };
    for Stage {
        snapshot: after,
        migration,
    } in stages.iter().copied().chain([last])
    {
        all = match before {
            None => after
                .entities
                .iter()
                .map(|(name, entity)| (name.clone(), unchanged_names(entity)))
                .collect(),
            Some(before) => extended(&all, (before, after), migration),
        };
        before = Some(after);
    }
    all
}

/// Returns the histories with the names of one more snapshot, `after`.
fn extended(
    histories: &BTreeMap<String, EntityNames>,
    (before, after): (&Snapshot, &Snapshot),
    migration: Option<&Migration>,
) -> BTreeMap<String, EntityNames> {
    let mut all = BTreeMap::new();
    for pair in pairs::entities(before, after) {
        match pair {
            EntityPair::New(entity) => {
                all.insert(entity.storage_name.clone(), unchanged_names(entity));
            }
            EntityPair::Kept { before, after } => {
                let Some(earlier) = histories.get(&before.storage_name) else {
                    continue;
                };
                let mut table = earlier.table.clone();
                push(&mut table, &after.storage_name);
                let mut columns = BTreeMap::new();
                let mut changed = BTreeMap::new();
                for pair in pairs::fields(before, after) {
                    let (name, field, mut history) = match pair {
                        FieldPair::New(name, field) => (name, field, NameHistory::new()),
                        FieldPair::Kept {
                            before: (earlier_name, was),
                            after: (name, field),
                        } => {
                            let known = earlier.changed.get(earlier_name).cloned();
                            let entity = &after.storage_name;
                            let new = Changed::of(migration, entity, name, (was, field));
                            if let Some(one) = new.or(known) {
                                changed.insert(name.to_owned(), one);
                            }
                            let history = earlier.columns.get(earlier_name).cloned();
                            (name, field, history.unwrap_or_default())
                        }
                        FieldPair::Gone(_) => continue,
                    };
                    push(&mut history, &field.column);
                    columns.insert(name.to_owned(), history);
                }
                let histories = EntityNames {
                    table,
                    columns,
                    changed,
                };
                all.insert(after.storage_name.clone(), histories);
            }
            EntityPair::Gone(_) => {}
        }
    }
    all
}

fn push(history: &mut NameHistory, name: &str) {
    if history.last().is_none_or(|last| last != name) {
        history.push(name.to_owned());
    }
}

fn unchanged_names(entity: &EntitySnapshot) -> EntityNames {
    EntityNames {
        table: vec![entity.storage_name.clone()],
        columns: entity
            .fields
            .iter()
            .map(|(name, field)| (name.clone(), vec![field.column.clone()]))
            .collect(),
        changed: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    /// The names for a binary without functions.
    fn names(epoch: u64, steps: &[&Snapshot], declared: &Snapshot, real: &Tables) -> Names {
        let stage = |snapshot| Stage {
            snapshot,
            migration: None,
        };
        let stages: Vec<Stage<'_>> = steps.iter().copied().map(stage).collect();
        super::names(epoch, &stages, (declared, &|_| None), real).expect("no function is needed")
    }

    fn snapshot(entity: &str, former: &[&str], fields: Json) -> Snapshot {
        let mut all = serde_json::Map::new();
        for (name, mut field) in fields.as_object().cloned().unwrap_or_default() {
            if let Some(facts) = field.as_object_mut() {
                facts.entry("column").or_insert(json!(name));
                facts.entry("optional").or_insert(json!(false));
                facts.entry("formerNames").or_insert(json!([]));
            }
            all.insert(name, field);
        }
        all.insert(
            "id".to_owned(),
            json!({ "type": "string", "column": "id", "optional": false, "formerNames": [] }),
        );
        let document = json!({ "format": 2, "entities": { entity: {
            "name": "Post", "storageName": entity, "formerNames": former, "primary": "id",
            "fields": all, "indexes": [], "uniques": [], "counters": [], "checks": [],
        } } });
        serde_json::from_value(document).expect("a snapshot")
    }

    #[test]
    fn a_renamed_field_has_its_earlier_column_until_the_column_is_renamed() {
        let one = snapshot("posts", &[], json!({ "title": { "type": "string" } }));
        let two = snapshot(
            "posts",
            &[],
            json!({ "heading": { "type": "string", "formerNames": ["title"] } }),
        );
        let three = snapshot(
            "articles",
            &["posts"],
            json!({ "headline": { "type": "string", "formerNames": ["title", "heading"] } }),
        );
        let found = names(4, &[&one, &two], &three, &one.tables());
        let articles = found.of("articles").expect("other names");
        assert_eq!((found.epoch, articles.table.as_str()), (4, "posts"));
        assert_eq!(found.column("articles", "headline"), Some("title"));

        // The second migration is done, the third one is open.
        let found = names(5, &[&two], &three, &two.tables());
        assert_eq!(found.column("articles", "headline"), Some("heading"));
        assert!(
            names(6, &[&three], &three, &three.tables())
                .tables
                .is_empty()
        );
        // The names for the earlier binary while the migration is open.
        assert!(names(6, &[&one], &one, &one.tables()).tables.is_empty());
    }

    #[test]
    fn a_dropped_required_field_is_filled_until_its_column_is_dropped() {
        let before = snapshot(
            "posts",
            &[],
            json!({
                "kind": { "type": "enum", "values": ["a", "b"] },
                "note": { "type": "string", "optional": true },
                "rank": { "type": "integer", "default": { "literal": 3 } },
                "size": { "type": "integer" },
            }),
        );
        let after = snapshot("posts", &[], json!({}));
        let found = names(1, &[&before], &after, &before.tables());
        let fillers: Vec<(&str, &Value)> = found.tables["posts"]
            .fillers
            .iter()
            .map(|filler| (filler.column.as_str(), &filler.value))
            .collect();
        assert_eq!(
            fillers,
            [
                ("kind", &Value::Text("a".to_owned())),
                ("size", &Value::Int(0))
            ]
        );
        assert!(
            names(2, &[&after], &after, &after.tables())
                .tables
                .is_empty()
        );
    }

    #[test]
    fn a_constraint_that_is_not_widened_yet_is_pending() {
        let field = |values: Json, optional: bool| json!({ "kind": { "type": "enum", "values": values }, "note": { "type": "string", "optional": optional } });
        let before = snapshot("posts", &[], field(json!(["a"]), false));
        let after = snapshot("posts", &[], field(json!(["a", "b"]), true));
        let found = names(1, &[&before], &after, &before.tables());
        let pending = |column: &str, values: Option<&str>| Pending {
            column: column.to_owned(),
            null: false,
            values: values.map(|value| vec![value.to_owned()]),
        };
        assert_eq!(
            found.tables["posts"].pending,
            [pending("kind", Some("a")), pending("note", None)]
        );
    }
}
