//! Snapshots for tests, and the steps between them.

use std::collections::BTreeMap;

use linchpin_core::schema::{
    Action, Dialect, EntitySnapshot, FieldDefault, FieldSnapshot, IndexSnapshot, KeySnapshot,
    LockLevel, Snapshot, Table, Tables,
};
use proptest::prelude::*;
use serde_json::json;

use super::{Link, Lowered, Reverse, Terrain, lower};
use crate::step::{Phase, Risk, Step};

/// A dialect without statements, for tests that compare only the model of the tables.
struct Model {
    rebuilds: bool,
}

impl Dialect for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn statements(&self, _: &Action, _: &Tables) -> Vec<String> {
        Vec::new()
    }

    fn is_transactional(&self, _: &Action) -> bool {
        true
    }

    fn lock(&self, _: &Action) -> LockLevel {
        LockLevel {
            name: "",
            brief: true,
        }
    }

    fn rebuilds(&self) -> bool {
        self.rebuilds
    }

    fn quote(&self, name: &str) -> String {
        format!("\"{name}\"")
    }
}

pub(super) fn field(kind: &str, optional: bool) -> FieldSnapshot {
    FieldSnapshot {
        kind: kind.to_owned(),
        column: String::new(),
        optional,
        values: None,
        item: None,
        default: None,
        computed: None,
        former_names: Vec::new(),
    }
}

pub(super) fn entity(name: &str, fields: &[(&str, FieldSnapshot)]) -> EntitySnapshot {
    let mut all = BTreeMap::from([(
        "id".to_owned(),
        FieldSnapshot {
            column: "id".to_owned(),
            ..field("string", false)
        },
    )]);
    for (name, field) in fields {
        let column = if field.column.is_empty() {
            (*name).to_owned()
        } else {
            field.column.clone()
        };
        all.insert(
            (*name).to_owned(),
            FieldSnapshot {
                column,
                ..field.clone()
            },
        );
    }
    EntitySnapshot {
        name: name.to_owned(),
        storage_name: name.to_owned(),
        former_names: Vec::new(),
        primary: "id".to_owned(),
        fields: all,
        indexes: Vec::new(),
        uniques: Vec::new(),
        counters: Vec::new(),
        checks: Vec::new(),
        soft_delete: None,
        ttl: None,
        tenant: None,
        version: None,
    }
}

pub(super) fn indexed(mut entity: EntitySnapshot, unique: bool, fields: &[&str]) -> EntitySnapshot {
    let columns: Vec<&str> = fields
        .iter()
        .map(|field| entity.fields[*field].column.as_str())
        .collect();
    let prefix = if unique { "ux" } else { "ix" };
    let index = IndexSnapshot {
        name: format!("{prefix}_{}_{}", entity.storage_name, columns.join("_")),
        keys: fields
            .iter()
            .map(|field| KeySnapshot {
                field: (*field).to_owned(),
                desc: false,
            })
            .collect(),
        live: false,
        null: None,
    };
    if unique {
        entity.uniques.push(index);
    } else {
        entity.indexes.push(index);
        entity.indexes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    entity
}

pub(super) fn snapshot(entities: impl IntoIterator<Item = EntitySnapshot>) -> Snapshot {
    Snapshot {
        format: Snapshot::FORMAT,
        entities: entities
            .into_iter()
            .map(|entity| (entity.storage_name.clone(), entity))
            .collect(),
    }
}

/// The steps between two snapshots. Each field of the later snapshot whose name begins with `t`
/// has a transform for a change of its type.
pub(super) fn steps_of(before: &Snapshot, after: &Snapshot, dialect: &dyn Dialect) -> Lowered {
    let transforms = after
        .entities
        .values()
        .flat_map(|entity| {
            let fields = entity.fields.keys().filter(|name| name.starts_with('t'));
            fields.map(|name| {
                let key = (entity.storage_name.clone(), name.clone());
                (key, "app::convert".to_owned())
            })
        })
        .collect();
    // Fields whose names end with `k` have a reverse; with `nk`, the reverse accepts null.
    let reverses = after.entities.values().flat_map(|entity| {
        let names = entity.fields.keys().filter(|name| name.ends_with('k'));
        names.map(|name| {
            let reverse = Reverse {
                name: "app::back".to_owned(),
                takes_null: name.ends_with("nk"),
            };
            ((entity.storage_name.clone(), name.clone()), reverse)
        })
    });
    let reverses = reverses.collect();
    let link = Link {
        seq: 2,
        before,
        after,
        transforms: &transforms,
        reverses: &reverses,
    };
    let terrain = Terrain {
        own_sql: &[],
        uses: &|_, field| (field == "t_used_k").then(|| "operation `find` uses it".to_owned()),
        dialect,
        classes: &BTreeMap::new(),
        sensitive: &|_, _| false,
    };
    lower(&link, &terrain)
}

pub(super) fn steps(before: &Snapshot, after: &Snapshot, rebuilds: bool) -> Lowered {
    steps_of(before, after, &Model { rebuilds })
}

fn sorted(tables: Tables) -> Tables {
    let sort = |mut table: Table| {
        table.columns.sort_by(|a, b| a.name.cmp(&b.name));
        table.indexes.sort_by(|a, b| a.name.cmp(&b.name));
        table
    };
    tables
        .into_iter()
        .map(|(name, table)| (name, sort(table)))
        .collect()
}

/// Asserts that the steps between two snapshots lead to the tables of the second, and that only
/// contract steps remove something.
pub(super) fn assert_steps_lead_to(before: &Snapshot, after: &Snapshot) {
    for rebuilds in [false, true] {
        let lowered = steps(before, after, rebuilds);
        let mut tables = before.tables();
        for step in &lowered.steps {
            step.apply(&mut tables);
        }
        let step_lines: Vec<String> = lowered.steps.iter().map(step_line).collect();
        assert_eq!(
            sorted(tables),
            sorted(after.tables()),
            "rebuilds: {rebuilds}\n{}",
            step_lines.join("\n")
        );
        let phases: Vec<Phase> = lowered.steps.iter().map(|step| step.phase).collect();
        assert!(phases.is_sorted(), "{step_lines:?}");
        for step in &lowered.steps {
            let removes = matches!(step.risk, Risk::Destructive | Risk::Breaking);
            assert!(
                !removes || step.phase == Phase::Contract,
                "{}",
                step_line(step)
            );
        }
    }
}

pub(super) fn step_line(step: &Step) -> String {
    format!(
        "{} {} {} {} {} {}",
        step.id,
        step.phase.name(),
        step.kind,
        step.entity,
        step.object.as_deref().unwrap_or("-"),
        step.risk.name()
    )
}

pub(super) fn lines(before: &Snapshot, after: &Snapshot, rebuilds: bool) -> String {
    let lowered = steps(before, after, rebuilds);
    lowered
        .steps
        .iter()
        .map(step_line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn any_field() -> impl Strategy<Value = FieldSnapshot> {
    let kind = proptest::sample::select(vec![
        "string",
        "integer",
        "boolean",
        "number",
        "date",
        "enum",
        "json",
        "string_array",
    ]);
    let values = proptest::sample::subsequence(vec!["a", "b", "c", "d"], 1..4);
    (kind, any::<bool>(), values, 0..3_u8).prop_map(|(kind, optional, values, default)| {
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        let literal = match kind {
            "integer" => Some(json!(i64::from(default))),
            "boolean" => Some(json!(default == 1)),
            "enum" => Some(json!(values[0])),
            "string" => Some(json!("DROP TABLE x")),
            _ => None,
        };
        FieldSnapshot {
            values: (kind == "enum").then_some(values),
            default: match (default, literal) {
                (0, _) => None,
                (1, Some(literal)) => Some(FieldDefault::Literal { literal }),
                _ if kind == "date" => Some(FieldDefault::Generated {
                    kind: "now".to_owned(),
                }),
                _ => None,
            },
            ..field(kind, optional)
        }
    })
}

/// Generates entities and fields from a few names. Some are renamed from one another.
pub(super) fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let names = || proptest::sample::select(vec!["ta", "tb", "tc", "td"]);
    let former = proptest::option::of(names());
    let fields = proptest::collection::btree_map(names(), (any_field(), former), 0..4);
    let indexes = proptest::collection::vec((any::<bool>(), 0..4_usize, 0..4_usize), 0..3);
    let one = (fields, indexes, proptest::option::of(names()));
    proptest::collection::btree_map(names(), one, 0..3).prop_map(|entities| {
        let kept: Vec<&str> = entities.keys().copied().collect();
        let mut claimed: Vec<&str> = Vec::new();
        snapshot(entities.iter().map(|(name, (fields, indexes, former))| {
            let mut taken: Vec<&str> = Vec::new();
            let list: Vec<(&str, FieldSnapshot)> = fields
                .iter()
                .map(|(name, (field, former))| {
                    let former = former
                        .filter(|former| !fields.contains_key(former) && !taken.contains(former));
                    taken.extend(former);
                    let former_names = former.into_iter().map(str::to_owned).collect();
                    (
                        *name,
                        FieldSnapshot {
                            former_names,
                            ..field.clone()
                        },
                    )
                })
                .collect();
            let mut one = entity(name, &list);
            let former = former.filter(|f| !kept.contains(f) && !claimed.contains(f));
            claimed.extend(former);
            one.former_names = former.into_iter().map(str::to_owned).collect();
            let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
            let mut made: Vec<(bool, Vec<&str>)> = Vec::new();
            for (unique, a, b) in indexes {
                if names.is_empty() {
                    continue;
                }
                let mut keys = vec![names[a % names.len()], names[b % names.len()]];
                keys.dedup();
                if !made.contains(&(*unique, keys.clone())) {
                    made.push((*unique, keys.clone()));
                    one = indexed(one, *unique, &keys);
                }
            }
            one
        }))
    })
}
