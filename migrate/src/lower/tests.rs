//! The steps between two snapshots lead to the tables of the second.

use std::collections::BTreeMap;

use linchpin_core::schema::{
    Action, ComputedSnapshot, CounterSnapshot, Dialect, EntitySnapshot, FieldDefault,
    FieldSnapshot, IndexSnapshot, KeySnapshot, LockLevel, Snapshot, Table, Tables, TtlSnapshot,
    VersionSnapshot,
};
use proptest::prelude::*;
use serde_json::json;

use super::{Link, Lowered, Reverse, Terrain, lower};
use crate::data::{DataAction, FillValue};
use crate::step::{Phase, Risk, Step, Work};

/// A store without statements: the model is all that counts here.
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

/// Every field of the later snapshot has a transform, so that each change of a type has one.
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
    // Those that end with `k` have a reverse, and those that end with `nk` one that takes null.
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

pub(super) fn lead_to(before: &Snapshot, after: &Snapshot) {
    for rebuilds in [false, true] {
        let lowered = steps(before, after, rebuilds);
        let mut tables = before.tables();
        for step in &lowered.steps {
            step.apply(&mut tables);
        }
        let said: Vec<String> = lowered.steps.iter().map(shown).collect();
        assert_eq!(
            sorted(tables),
            sorted(after.tables()),
            "rebuilds: {rebuilds}\n{}",
            said.join("\n")
        );
        let phases: Vec<Phase> = lowered.steps.iter().map(|step| step.phase).collect();
        assert!(phases.is_sorted(), "{said:?}");
        for step in &lowered.steps {
            let removes = matches!(step.risk, Risk::Destructive | Risk::Breaking);
            assert!(!removes || step.phase == Phase::Contract, "{}", shown(step));
        }
    }
}

pub(super) fn shown(step: &Step) -> String {
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
        .map(shown)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_new_entity_is_created_with_its_indexes() {
    let after = snapshot([indexed(
        indexed(
            entity("posts", &[("slug", field("string", false))]),
            true,
            &["slug"],
        ),
        false,
        &["slug", "id"],
    )]);
    assert_eq!(
        lines(&Snapshot::empty(), &after, false),
        "0002.01 expand createTable posts - safe\n\
         0002.02 expand createUniqueIndex posts ux_posts_slug safe\n\
         0002.03 expand createIndex posts ix_posts_slug_id safe"
    );
    lead_to(&Snapshot::empty(), &after);
}

#[test]
fn a_renamed_field_keeps_its_values_and_its_index() {
    let before = snapshot([indexed(
        entity("posts", &[("views", field("integer", false))]),
        false,
        &["views"],
    )]);
    let renamed = FieldSnapshot {
        former_names: vec!["views".to_owned()],
        ..field("integer", false)
    };
    let after = snapshot([indexed(
        entity("posts", &[("view_count", renamed)]),
        false,
        &["view_count"],
    )]);
    for rebuilds in [false, true] {
        assert_eq!(
            lines(&before, &after, rebuilds),
            "0002.01 contract renameColumn posts view_count breaking\n\
             0002.02 contract renameIndex posts ix_posts_view_count breaking"
        );
    }
    lead_to(&before, &after);
}

#[test]
fn a_required_field_with_a_literal_default_is_one_step() {
    let before = snapshot([entity("posts", &[])]);
    let after = snapshot([entity(
        "posts",
        &[(
            "rank",
            FieldSnapshot {
                default: Some(FieldDefault::Literal { literal: json!(3) }),
                ..field("integer", false)
            },
        )],
    )]);
    for rebuilds in [false, true] {
        assert_eq!(
            lines(&before, &after, rebuilds),
            "0002.01 expand addColumn posts rank safe"
        );
    }
}

#[test]
fn a_replaced_field_is_computed_beside_the_old_one() {
    let before = snapshot([entity("posts", &[("size", field("string", false))])]);
    let after = snapshot([entity(
        "posts",
        &[(
            "t_bytes",
            FieldSnapshot {
                former_names: vec!["size".to_owned()],
                ..field("integer", false)
            },
        )],
    )]);
    assert_eq!(
        lines(&before, &after, false),
        "0002.01 expand addColumn posts t_bytes__next safe\n\
         0002.02 expand addColumn posts t_bytes__src safe\n\
         0002.03 backfill transform posts t_bytes__next transform\n\
         0002.04 contract transform posts t_bytes__next transform\n\
         0002.05 contract addCheck posts ck_posts_t_bytes__next__not_null breaking\n\
         0002.06 contract validateCheck posts ck_posts_t_bytes__next__not_null breaking\n\
         0002.07 contract setNotNull posts t_bytes__next breaking\n\
         0002.08 contract dropCheck posts ck_posts_t_bytes__next__not_null breaking\n\
         0002.09 contract swapColumn posts t_bytes destructive"
    );
    assert_eq!(
        lines(&before, &after, true).lines().last(),
        Some("0002.05 contract rebuildTable posts - destructive")
    );
    lead_to(&before, &after);
}

#[test]
fn a_replaced_field_with_a_reverse_is_in_two_columns_until_the_contract() {
    let of =
        |name: &str, kind: &str, optional: bool| entity("posts", &[(name, field(kind, optional))]);
    let lowered = |was: EntitySnapshot, is: EntitySnapshot| {
        let found = steps(&snapshot([was]), &snapshot([is]), false);
        (found.fence, found.ready, found.reverses)
    };
    let kept = (None, Phase::Backfill, vec!["app::back".to_owned()]);
    let fenced = |why: &str| (Some(why.to_owned()), Phase::Contract, Vec::new());
    let both =
        |name: &str, was: bool, is: bool| lowered(of(name, "string", was), of(name, "integer", is));
    assert_eq!(both("t_k", false, false), kept);
    assert_eq!(both("t_k", true, true), kept);
    assert_eq!(both("t_nk", false, true), kept);
    assert_eq!(both("t", false, false), fenced("`t` gets another type"));
    assert_eq!(
        both("t_k", false, true),
        fenced("`t_k` gets another type, and null has no value of the earlier type")
    );
    assert_eq!(
        both("t_used_k", false, false),
        fenced("`t_used_k` gets another type, and operation `find` uses it")
    );
    assert_eq!(
        lowered(
            indexed(of("t_k", "string", false), false, &["t_k"]),
            of("t_k", "integer", false)
        ),
        fenced("`t_k` gets another type, and an index has it")
    );
}

#[test]
fn long_columns_have_short_names_while_they_are_replaced() {
    let long = "t".repeat(63);
    let before = snapshot([entity("posts", &[(&long, field("string", false))])]);
    let after = snapshot([entity("posts", &[(&long, field("integer", false))])]);
    for step in steps(&before, &after, false).steps {
        assert!(step.object.is_none_or(|object| object.len() <= 63));
    }
    lead_to(&before, &after);
}

#[test]
fn a_new_version_and_a_new_expiry_are_filled() {
    let before = snapshot([entity("posts", &[])]);
    let mut posts = entity(
        "posts",
        &[
            ("version", field("integer", false)),
            ("expires_at", field("date", false)),
        ],
    );
    posts.version = Some(VersionSnapshot {
        field: "version".to_owned(),
    });
    posts.ttl = Some(TtlSnapshot {
        field: "expires_at".to_owned(),
        after: Some(1_000),
    });
    let lowered = steps(&before, &snapshot([posts]), false);
    let values: Vec<&FillValue> = lowered
        .steps
        .iter()
        .filter(|step| step.phase == Phase::Backfill)
        .filter_map(|step| match &step.work {
            Work::Data(DataAction::Fill { value, .. }) => Some(value),
            _ => None,
        })
        .collect();
    let one = FillValue::Literal(linchpin_core::Value::Int(1));
    assert_eq!(values, [&FillValue::After(1_000), &one]);
}

#[test]
fn a_dropped_field_of_a_unique_index_ends_the_overlap() {
    let slug = || [("slug", field("string", false))];
    let before = snapshot([indexed(entity("posts", &slug()), true, &["slug"])]);
    let after = snapshot([entity("posts", &[])]);
    let fence = steps(&before, &after, false).fence.expect("a fence");
    assert_eq!(fence, "`slug` is dropped and unique");
    let plain = snapshot([entity("posts", &slug())]);
    assert_eq!(steps(&plain, &after, false).fence, None);
}

/// Posts with a computed field, counted in their users.
fn counted(user: &str, by: &str, total: &str, input: &str, former: [&str; 4]) -> Snapshot {
    let named = |kind: &str, former: &str| FieldSnapshot {
        former_names: Some(former.to_owned())
            .into_iter()
            .filter(|f| !f.is_empty())
            .collect(),
        ..field(kind, false)
    };
    let slug = FieldSnapshot {
        computed: Some(ComputedSnapshot {
            inputs: vec![input.to_owned()],
            body: "00".to_owned(),
        }),
        ..field("string", false)
    };
    let mut posts = entity(
        "posts",
        &[
            (by, named("string", former[0])),
            (input, named("string", former[1])),
            ("slug", slug),
        ],
    );
    posts.counters = vec![CounterSnapshot {
        target: user.to_owned(),
        field: total.to_owned(),
        by: by.to_owned(),
        when: json!({}),
    }];
    let mut users = entity(user, &[(total, named("integer", former[2]))]);
    users.former_names = Some(former[3].to_owned())
        .into_iter()
        .filter(|f| !f.is_empty())
        .collect();
    snapshot([posts, users])
}

#[test]
fn renames_need_no_new_counts_and_no_new_computed_values() {
    let before = counted("users", "user_id", "posts", "title", ["", "", "", ""]);
    let after = counted(
        "people",
        "person_id",
        "total",
        "headline",
        ["user_id", "title", "posts", "users"],
    );
    let lowered = steps(&before, &after, false);
    let data = lowered
        .steps
        .iter()
        .filter(|step| matches!(step.work, Work::Data(_)));
    assert_eq!(data.map(shown).collect::<Vec<_>>(), Vec::<String>::new());
    lead_to(&before, &after);
    // Another field to count by is another count.
    let mut other = after.clone();
    let posts = other.entities.get_mut("posts").expect("posts");
    posts.counters[0].by = "headline".to_owned();
    let lowered = steps(&before, &other, false);
    assert!(lowered.steps.iter().any(|step| step.kind == "recount"));
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

/// Entities of a few names with fields of a few names, some of them renamed from one another.
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

proptest! {
    #[test]
    fn the_steps_between_two_snapshots_lead_to_the_second(
        before in any_snapshot(),
        after in any_snapshot(),
    ) {
        lead_to(&before, &after);
    }

    #[test]
    fn equal_snapshots_need_no_steps(one in any_snapshot()) {
        for rebuilds in [false, true] {
            prop_assert_eq!(lines(&one, &one, rebuilds), "");
        }
    }
}
