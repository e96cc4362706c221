//! Tests of each case of a rename, for fields and entities.

use super::fixture::*;
use crate::diff::{diff, diff_snapshots};
use linchpin_core::entity::{EntityDesc, FieldDesc, Kind};
use linchpin_core::schema::Snapshot;

fn text(name: &'static str) -> FieldDesc {
    field(name, Kind::String)
}

fn from(name: &'static str, names: &[&'static str]) -> FieldDesc {
    text(name).rename_from(leaked(names))
}

#[test]
fn a_field_with_a_recorded_source_is_renamed() {
    let diff = between(
        &[&task(&[text("name")])],
        &[&task(&[from("display", &["name"])])],
    );
    assert_eq!(kinds(&diff), ["renameField tasks display from name"]);
    let fields = &diff.snapshot.entities["tasks"].fields;
    assert_eq!(fields["display"].former_names, ["name"]);
}

#[test]
fn the_newest_recorded_name_is_the_source() {
    let diff = between(
        &[&task(&[text("a"), text("b")])],
        &[&task(&[from("d", &["c", "b", "a"])])],
    );
    assert_eq!(
        kinds(&diff),
        ["renameField tasks d from b", "dropField tasks a"]
    );
}

#[test]
fn an_applied_rename_may_keep_or_lose_its_annotation() {
    let first = task(&[text("name")]);
    let second = task(&[from("display", &["name"])]);
    let renamed = between(&[&first], &[&second]);
    let kept = diff(&renamed.snapshot, &[&second]).unwrap();
    assert!(kept.changes.is_empty());
    assert_eq!(kept.snapshot, renamed.snapshot);
    assert_eq!(
        kept.notes,
        [
            "renames of earlier migrations, whose `rename_from` may be removed: `tasks.display` \
             from `name`"
        ]
    );
    let removed = diff(&renamed.snapshot, &[&task(&[text("display")])]).unwrap();
    assert!(removed.changes.is_empty() && removed.notes.is_empty());
    assert_eq!(removed.snapshot, renamed.snapshot);
}

#[test]
fn renames_of_several_migrations_are_remembered_in_order() {
    let one = between(&[&task(&[text("a")])], &[&task(&[from("b", &["a"])])]);
    let two = diff(&one.snapshot, &[&task(&[from("c", &["b", "a"])])]).unwrap();
    assert_eq!(kinds(&two), ["renameField tasks c from b"]);
    let fields = &two.snapshot.entities["tasks"].fields;
    assert_eq!(fields["c"].former_names, ["a", "b"]);
}

#[test]
fn a_recorded_field_with_an_unrecorded_source_is_unchanged() {
    let same = between(
        &[&task(&[text("display")])],
        &[&task(&[from("display", &["gone"])])],
    );
    assert!(same.changes.is_empty());
}

#[test]
fn a_new_entity_may_name_sources_that_were_never_recorded() {
    let declared = task(&[from("display", &["name"])]);
    let first = diff(&Snapshot::empty(), &[&declared]).unwrap();
    assert_eq!(kinds(&first), ["createEntity tasks"]);
    let again = diff(&first.snapshot, &[&declared]).unwrap();
    assert!(again.changes.is_empty());
    assert_eq!(again.snapshot, first.snapshot);
}

#[test]
fn an_entity_with_a_recorded_source_is_renamed_with_its_fields() {
    let before = task(&[text("name"), text("note")]);
    let after = EntityDesc {
        rename_from: &["tasks"],
        ..entity("Item", "items", &[from("title", &["name"]), text("note")])
    };
    let diff = between(&[&before], &[&after]);
    assert_eq!(
        kinds(&diff),
        [
            "renameEntity items from tasks",
            "renameField items title from name"
        ]
    );
    assert_eq!(diff.snapshot.entities["items"].former_names, ["tasks"]);
    assert!(diff.notes.is_empty());
}

#[test]
fn an_entity_without_a_recorded_source_is_new_and_noted() {
    let after = EntityDesc {
        rename_from: &["task"],
        ..entity("Item", "items", &[])
    };
    let diff = between(&[&task(&[])], &[&task(&[]), &after]);
    assert_eq!(kinds(&diff), ["createEntity items"]);
    assert_eq!(
        diff.notes,
        [
            "entity `items` is created, because its `rename_from` names `task`, which the previous snapshot \
             does not have; did you mean `tasks`?"
        ]
    );
}

#[test]
fn a_dropped_entity_that_looks_like_a_new_one_gets_a_hint() {
    let before = task(&[text("a"), text("b"), text("c"), text("d")]);
    let similar = entity(
        "Item",
        "items",
        &[text("a"), text("b"), text("c"), text("x")],
    );
    let diff = between(&[&before], &[&similar]);
    assert_eq!(kinds(&diff), ["createEntity items", "dropEntity tasks"]);
    assert_eq!(
        diff.notes,
        [
            "`tasks` is dropped and `items` is created, and 4 of 5 fields agree; if it is a \
             rename, declare `items` with `rename_from = \"tasks\"`"
        ]
    );
    // With 3 of 5 equal fields, exactly 60 %, there is no hint.
    let other = entity(
        "Item",
        "items",
        &[text("a"), text("b"), text("x"), text("y")],
    );
    assert!(between(&[&before], &[&other]).notes.is_empty());
}

#[test]
fn two_snapshots_are_compared_by_their_former_names() {
    let before = recorded(&[&task(&[text("name")])]);
    let after = EntityDesc {
        rename_from: &["tasks"],
        ..entity("Item", "items", &[from("title", &["name"])])
    };
    let next = diff(&before, &[&after]).unwrap();
    let compared = diff_snapshots(&before, &next.snapshot).unwrap();
    assert_eq!(compared.changes, next.changes);
    assert_eq!(compared.snapshot, next.snapshot);
    let same = diff_snapshots(&next.snapshot, &next.snapshot).unwrap();
    assert!(same.changes.is_empty() && same.notes.len() <= 1, "{same:?}");
}
