//! Tests of each kind of change.

use super::fixture::*;
use crate::canonical::digest_of;
use crate::diff::diff;
use linchpin_core::Value;
use linchpin_core::entity::{
    ComputedDesc, DefaultDesc, EntityDesc, FieldDesc, IndexDesc, Kind, Link, OnDelete, Relation,
    SoftDelete, SortDesc, Summary, Tenant, TransformFrom, Ttl, UniqueDesc, VersionDesc,
};
use linchpin_core::filter::FilterSpec;

pub(super) fn text(name: &'static str) -> FieldDesc {
    field(name, Kind::String)
}

pub(super) fn from(name: &'static str, names: &[&'static str]) -> FieldDesc {
    text(name).rename_from(leaked(names))
}

pub(super) fn one() -> Value {
    Value::Int(1)
}

pub(super) fn two() -> Value {
    Value::Int(2)
}

pub(super) fn index(fields: &[(usize, bool)]) -> IndexDesc {
    let keys: Vec<SortDesc> = fields
        .iter()
        .map(|(field, desc)| SortDesc {
            field: *field,
            desc: *desc,
        })
        .collect();
    IndexDesc {
        global: false,
        fields: leaked(&keys),
    }
}

pub(super) fn unique(fields: &[usize]) -> UniqueDesc {
    UniqueDesc {
        fields: leaked(fields),
        global: false,
    }
}

#[track_caller]
fn assert_changes(before: &EntityDesc, after: &EntityDesc, expected: &[&str]) {
    let diff = between(&[before], &[after]);
    assert_eq!(kinds(&diff), expected);
    assert_eq!(
        digest_of(&diff.snapshot) == digest_of(&recorded(&[before])),
        expected.is_empty()
    );
}

#[test]
fn entities_are_created_and_dropped() {
    let (a, b) = (entity("A", "a", &[]), entity("B", "b", &[]));
    let diff = between(&[&a], &[&b]);
    assert_eq!(kinds(&diff), ["createEntity b", "dropEntity a"]);
}

#[test]
fn fields_are_added_and_dropped() {
    let count = field("count", Kind::Integer);
    let fill = transform(TransformFrom::Record, transform_type(Kind::Integer, false));
    for (field, kind) in [
        (optional(count), "addField tasks count"),
        (count.literal(one), "addField tasks count"),
        (
            count.transform(fill),
            "addField tasks count by tasks::convert",
        ),
        (
            optional(count).transform(fill),
            "addField tasks count by tasks::convert",
        ),
    ] {
        assert_changes(&task(&[]), &task(&[field]), &[kind]);
        assert_changes(&task(&[field]), &task(&[]), &["dropField tasks count"]);
    }
    let generated = text("key").default(DefaultDesc::Cuid);
    assert_changes(&task(&[]), &task(&[generated]), &["addField tasks key"]);
}

#[test]
fn transforms_are_recorded_with_their_reverse() {
    let before = task(&[text("size")]);
    let from = TransformFrom::Value(transform_type(Kind::String, false));
    let forward = transform(from, transform_type(Kind::Integer, false));
    let backward = linchpin_core::entity::TransformDesc {
        name: "tasks::back",
        from: TransformFrom::Value(transform_type(Kind::Integer, false)),
        to: transform_type(Kind::String, false),
        ..*transform(from, transform_type(Kind::Integer, false))
    };
    let forward = linchpin_core::entity::TransformDesc {
        reverse: Some(leak(backward)),
        ..*forward
    };
    let bytes = field("bytes", Kind::Integer).rename_from(&["size"]);
    let diff = between(&[&before], &[&task(&[bytes.transform(leak(forward))])]);
    assert_eq!(
        kinds(&diff),
        ["replaceField tasks bytes from size by tasks::convert"]
    );
    let shown: Vec<String> = diff
        .transforms
        .iter()
        .map(|one| format!("{} {} {}", one.name, one.from, one.to))
        .collect();
    assert_eq!(
        shown,
        [
            "tasks::back integer string",
            "tasks::convert string integer"
        ]
    );
}

#[test]
fn all_changes_of_a_renamed_field_are_reported() {
    let before = task(&[choice("state", &["open", "done"])]);
    let open = || Value::Text("open".to_owned());
    let after = task(&[optional(choice("status", &["open", "late"]))
        .literal(open)
        .rename_from(&["state"])]);
    assert_changes(
        &before,
        &after,
        &[
            "renameField tasks status from state",
            "makeOptional tasks status",
            "changeDefault tasks status",
            "widenEnum tasks status [\"late\"]",
            "narrowEnum tasks status [\"done\"]",
        ],
    );
}

#[test]
fn each_changed_property_of_a_field_is_one_change() {
    let count = field("count", Kind::Integer);
    let before = task(&[count.literal(one)]);
    assert_changes(
        &before,
        &task(&[count.literal(two)]),
        &["changeDefault tasks count"],
    );
    assert_changes(&before, &task(&[count]), &["changeDefault tasks count"]);
    assert_changes(
        &before,
        &task(&[optional(count.literal(one))]),
        &["makeOptional tasks count"],
    );
    assert_changes(
        &task(&[optional(count.literal(one))]),
        &before,
        &["makeRequired tasks count"],
    );
    let fill = transform(TransformFrom::Record, transform_type(Kind::Integer, false));
    assert_changes(
        &task(&[optional(count)]),
        &task(&[count.transform(fill)]),
        &["makeRequired tasks count by tasks::convert"],
    );
    let column = FieldDesc {
        column: "n",
        ..count.literal(one)
    };
    assert_changes(&before, &task(&[column]), &["changeColumn tasks count"]);
}

pub(super) fn computed(body: &'static str, from: &[usize]) -> FieldDesc {
    text("slug").computed(ComputedDesc {
        name: "slug",
        body,
        value: |_| Ok(Value::Null),
        blank: || linchpin_core::ValueRef::Null,
        from: leaked(from),
    })
}

#[test]
fn a_changed_function_recomputes_the_field() {
    let before = task(&[text("title"), computed("a", &[1])]);
    assert_changes(
        &before,
        &task(&[text("title"), computed("b", &[1])]),
        &["recompute tasks slug"],
    );
    assert_changes(
        &before,
        &task(&[text("title"), computed("a", &[0, 1])]),
        &["recompute tasks slug"],
    );
    assert_changes(
        &task(&[text("title"), text("slug")]),
        &before,
        &["recompute tasks slug"],
    );
    assert_changes(&task(&[text("title")]), &before, &["addField tasks slug"]);
    // A renamed input is the same input.
    assert_changes(
        &before,
        &task(&[from("name", &["title"]), computed("a", &[1])]),
        &["renameField tasks name from title"],
    );
}

fn with_indexes(names: &[FieldDesc; 2]) -> EntityDesc {
    EntityDesc {
        indexes: leaked(&[index(&[(1, false), (2, true)])]),
        uniques: leaked(&[unique(&[1])]),
        ..task(names)
    }
}

#[test]
fn indexes_are_added_and_dropped() {
    let plain = task(&[text("a"), text("b")]);
    let indexed = with_indexes(&[text("a"), text("b")]);
    assert_changes(
        &plain,
        &indexed,
        &["addUnique tasks ux_tasks_a", "addIndex tasks ix_tasks_a_b"],
    );
    assert_changes(
        &indexed,
        &plain,
        &[
            "dropUnique tasks ux_tasks_a",
            "dropIndex tasks ix_tasks_a_b",
        ],
    );
    let other = EntityDesc {
        indexes: leaked(&[index(&[(1, true), (2, true)])]),
        ..with_indexes(&[text("a"), text("b")])
    };
    assert_changes(
        &indexed,
        &other,
        &[
            "addIndex tasks ix_tasks_a_b",
            "dropIndex tasks ix_tasks_a_b",
        ],
    );
}

#[test]
fn an_index_of_renamed_fields_is_the_same_index() {
    let before = with_indexes(&[text("a"), text("b")]);
    assert_changes(
        &before,
        &with_indexes(&[from("x", &["a"]), text("b")]),
        &[
            "renameField tasks x from a",
            "renameIndex tasks ux_tasks_x from ux_tasks_a",
            "renameIndex tasks ix_tasks_x_b from ix_tasks_a_b",
        ],
    );
    let same_column = FieldDesc {
        column: "a",
        ..from("x", &["a"])
    };
    assert_changes(
        &before,
        &with_indexes(&[same_column, text("b")]),
        &["renameField tasks x from a"],
    );
    let column = FieldDesc {
        column: "x",
        ..text("a")
    };
    assert_changes(
        &before,
        &with_indexes(&[column, text("b")]),
        &[
            "changeColumn tasks a",
            "renameIndex tasks ux_tasks_x from ux_tasks_a",
            "renameIndex tasks ix_tasks_x_b from ix_tasks_a_b",
        ],
    );
}

#[test]
fn a_new_soft_delete_replaces_the_unique_indexes() {
    let fields = [text("a"), optional(field("gone", Kind::Date))];
    let before = with_indexes(&fields);
    let after = EntityDesc {
        soft_delete: Some(SoftDelete::At(2)),
        ..with_indexes(&fields)
    };
    let diff = between(&[&before], &[&after]);
    let kinds = kinds(&diff);
    for expected in [
        "changeSoftDelete tasks",
        "addUnique tasks ux_tasks_a",
        "dropUnique tasks ux_tasks_a",
    ] {
        assert!(kinds.iter().any(|kind| kind == expected), "{kinds:?}");
    }
}

#[test]
fn each_property_of_an_entity_is_one_change_and_survives_renames() {
    let at = optional(field("at", Kind::Date));
    let base = || task(&[text("org"), at, field("rev", Kind::Integer).literal(one)]);
    let ttl = EntityDesc {
        ttl: Some(Ttl {
            field: 2,
            after: None,
        }),
        ..base()
    };
    assert_changes(
        &base(),
        &ttl,
        &["changeTtl tasks", "addIndex tasks ix_tasks_at"],
    );
    let version = EntityDesc {
        version: Some(VersionDesc {
            field: 3,
            required_on_write: false,
        }),
        ..base()
    };
    assert_changes(&base(), &version, &["changeVersion tasks"]);
    let tenant = |name: FieldDesc| EntityDesc {
        tenant: Some(Tenant {
            field: 1,
            optional: false,
            anonymous_read: false,
        }),
        ..task(&[name])
    };
    let kinds_of = |before: &EntityDesc, after: &EntityDesc| kinds(&between(&[before], &[after]));
    let plain = task(&[text("org")]);
    assert!(kinds_of(&plain, &tenant(text("org"))).contains(&"changeTenant tasks".to_owned()));
    let renamed = kinds_of(&tenant(text("org")), &tenant(from("team", &["org"])));
    assert!(
        !renamed.contains(&"changeTenant tasks".to_owned()),
        "{renamed:?}"
    );
    assert!(
        !renamed.iter().any(|kind| kind.starts_with("addIndex")),
        "{renamed:?}"
    );
}

#[test]
fn a_generated_version_or_expiry_needs_no_value() {
    let added = EntityDesc {
        version: Some(VersionDesc {
            field: 1,
            required_on_write: false,
        }),
        ttl: Some(Ttl {
            field: 2,
            after: Some(1000),
        }),
        ..task(&[field("version", Kind::Integer), field("expiry", Kind::Date)])
    };
    let diff = between(&[&task(&[])], &[&added]);
    let kinds = kinds(&diff);
    for expected in [
        "addField tasks version",
        "addField tasks expiry",
        "changeVersion tasks",
    ] {
        assert!(kinds.iter().any(|kind| kind == expected), "{kinds:?}");
    }
}

static LIST: EntityDesc = EntityDesc::new(
    "List",
    "lists",
    "lists",
    &[
        field("id", Kind::String),
        field("size", Kind::Integer).literal(one),
    ],
);

/// A task that counts in `LIST.size`, if `when` holds.
fn task_with_counter(when: FilterSpec) -> EntityDesc {
    EntityDesc {
        summaries: leak([Summary {
            target: || &LIST,
            field: "size",
            by: 1,
            when,
            least: None,
        }]),
        ..task(&[text("list_id")])
    }
}

#[test]
fn a_new_or_changed_counter_is_recounted() {
    let plain = task(&[text("list_id")]);
    let all = task_with_counter(FilterSpec::All(&[]));
    let none = task_with_counter(FilterSpec::Any(&[]));
    let changes = |before: &EntityDesc, after: &EntityDesc| {
        kinds(&between(&[before, &LIST], &[after, &LIST]))
    };
    assert_eq!(
        changes(&plain, &all),
        [
            "addIndex tasks ix_tasks_list_id",
            "recount lists size tasks"
        ]
    );
    assert_eq!(changes(&all, &none), ["recount lists size tasks"]);
    assert!(changes(&all, &all).is_empty());
    // The new entity has no records to count, so there is no recount.
    let created = between(&[&LIST], &[&all, &LIST]);
    assert_eq!(kinds(&created), ["createEntity tasks"]);
}

#[test]
fn new_references_are_checked_and_changed_delete_effects_are_noted() {
    let linked = |on_delete| EntityDesc {
        relations: leak([Relation {
            name: "list",
            wire: "list",
            target: || &LIST,
            link: Link::BelongsTo { key: 1, on_delete },
        }]),
        ..task(&[text("list_id")])
    };
    let plain = linked(OnDelete::None);
    let restrict = linked(OnDelete::Restrict);
    let cascade = linked(OnDelete::Cascade);
    let diff = |before: &EntityDesc, after: &EntityDesc| between(&[before, &LIST], &[after, &LIST]);
    assert_eq!(
        kinds(&diff(&plain, &restrict)),
        ["addReference tasks list_id lists"]
    );
    let changed = diff(&restrict, &cascade);
    assert!(changed.changes.is_empty());
    assert_eq!(
        changed.notes,
        ["deleting a record of `lists` now has the effect `cascade` on `tasks.list_id`"]
    );
    assert!(kinds(&diff(&restrict, &plain)).is_empty());
}

#[test]
fn equal_declarations_have_no_difference() {
    for desc in [
        super::facts::base_entity(),
        task_with_counter(FilterSpec::All(&[])),
        with_indexes(&[text("a"), text("b")]),
    ] {
        let recorded = recorded(&[&desc, &LIST]);
        let same = diff(&recorded, &[&LIST, &desc]).unwrap();
        assert!(same.changes.is_empty() && same.notes.is_empty());
        assert_eq!(same.snapshot, recorded);
    }
}
