//! Tests of the text of every planning error.

use super::fixture::*;
use linchpin_core::entity::{EntityDesc, FieldDesc, Kind, TransformFrom};

fn text(name: &'static str) -> FieldDesc {
    line(12, field(name, Kind::String))
}

fn from(name: &'static str, names: &[&'static str]) -> FieldDesc {
    text(name).rename_from(leaked(names))
}

#[track_caller]
fn assert_refused(before: &EntityDesc, after: &EntityDesc, expected: &str) {
    assert_eq!(refused(&[before], &[after]), expected);
}

#[test]
fn a_rename_from_an_unrecorded_name_is_refused() {
    assert_refused(
        &task(&[text("name")]),
        &task(&[from("display", &["nmae"])]),
        "rename_source_missing: field `display` is renamed from `nmae`, which the previous \
         snapshot (3 `add_x`) does not have; it has: `id`, `name`; did you mean `name`?\n  \
         \u{20}entity `Task`, field `display` (src/tasks.rs:12)",
    );
    assert_refused(
        &task(&[text("name")]),
        &task(&[from("display", &["one", "two"])]),
        "rename_source_missing: field `display` is renamed from `one` or `two`, which the \
         previous snapshot (3 `add_x`) does not have; it has: `id`, `name`\n  \
         \u{20}entity `Task`, field `display` (src/tasks.rs:12)",
    );
}

#[test]
fn a_rename_from_a_declared_name_is_refused() {
    assert_refused(
        &task(&[text("name")]),
        &task(&[text("name"), from("display", &["name"])]),
        "rename_source_declared: field `display` is renamed from `name`, but `name` is still \
         declared\n  \u{20}entity `Task`, field `display` (src/tasks.rs:12)",
    );
}

#[test]
fn swapped_names_are_refused() {
    assert_refused(
        &task(&[text("a"), text("b")]),
        &task(&[from("a", &["b"]), from("b", &["a"])]),
        "rename_source_declared: 2 declarations need a correction\n  \
         rename_source_declared entity `Task`, field `a`: field `a` is renamed from `b`, but `b` \
         is still declared (src/tasks.rs:12)\n  \
         rename_source_declared entity `Task`, field `b`: field `b` is renamed from `a`, but `a` \
         is still declared (src/tasks.rs:12)",
    );
}

#[test]
fn a_rename_to_a_recorded_name_is_refused() {
    assert_refused(
        &task(&[text("name"), text("display")]),
        &task(&[from("display", &["name"])]),
        "rename_target_exists: field `display` already exists in the previous snapshot and did \
         not come from `name`\n  \u{20}entity `Task`, field `display` (src/tasks.rs:12)",
    );
}

#[test]
fn two_renames_from_one_name_are_refused() {
    assert_refused(
        &task(&[text("name")]),
        &task(&[from("display", &["name"]), from("title", &["name"])]),
        "rename_claimed_twice: `name` is the `rename_from` of `display` and `title`\n  \
         \u{20}entity `Task`, field `display` (src/tasks.rs:12)",
    );
}

#[test]
fn renamed_entities_have_the_same_errors() {
    let renamed = |name, storage, from: &[&'static str]| EntityDesc {
        rename_from: leaked(from),
        ..entity(name, storage, &[])
    };
    let refused = |before: &[&EntityDesc], after: &[&EntityDesc]| refused(before, after);
    let a = entity("A", "a", &[]);
    assert_eq!(
        refused(&[&a], &[&a, &renamed("B", "b", &["a"])]),
        "rename_source_declared: entity `b` is renamed from `a`, but `a` is still declared\n  \
         \u{20}entity `B` (src/tasks.rs:10)"
    );
    let b = entity("B", "b", &[]);
    assert_eq!(
        refused(&[&a, &b], &[&renamed("B", "b", &["a"])]),
        "rename_target_exists: entity `b` already exists in the previous snapshot and did not \
         come from `a`\n  \u{20}entity `B` (src/tasks.rs:10)"
    );
    assert_eq!(
        refused(
            &[&a],
            &[&renamed("B", "b", &["a"]), &renamed("C", "c", &["a"])]
        ),
        "rename_claimed_twice: `a` is the `rename_from` of `b` and `c`\n  \
         \u{20}entity `B` (src/tasks.rs:10)"
    );
}

#[test]
fn a_new_type_without_a_transform_is_refused() {
    assert_refused(
        &task(&[text("size")]),
        &task(&[line(13, field("size", Kind::Integer))]),
        "transform_required: `size` changes from string to integer; name a reviewed transform: \
         `transform = path`\n  \u{20}entity `Task`, field `size` (src/tasks.rs:13)",
    );
    assert_refused(
        &task(&[text("size")]),
        &task(&[line(13, field("bytes", Kind::Integer)).rename_from(&["size"])]),
        "transform_required: `bytes` changes from string to integer; name a reviewed transform: \
         `transform = path`\n  \u{20}entity `Task`, field `bytes` (src/tasks.rs:13)",
    );
    let items = |member| line(14, field("lines", Kind::Items(leaked(&[member]))));
    assert_refused(
        &task(&[items(text("a"))]),
        &task(&[items(optional(text("a")))]),
        "transform_required: the items of `lines` change their shape; name a reviewed transform: \
         `transform = path`\n  \u{20}entity `Task`, field `lines` (src/tasks.rs:14)",
    );
}

#[test]
fn a_transform_of_another_type_is_refused() {
    let size = |from, to| field("size", Kind::Integer).transform(transform(from, to));
    for (from, to, what) in [
        (
            TransformFrom::Record,
            transform_type(Kind::Integer, false),
            "takes a record",
        ),
        (
            TransformFrom::Value(transform_type(Kind::Boolean, true)),
            transform_type(Kind::Integer, false),
            "takes `boolean?`",
        ),
        (
            TransformFrom::Value(transform_type(Kind::String, false)),
            transform_type(Kind::Number, false),
            "returns `number`",
        ),
        (
            TransformFrom::Value(transform_type(Kind::String, false)),
            transform_type(Kind::Integer, true),
            "returns `integer?`",
        ),
    ] {
        let expected = format!(
            "transform_signature: transform `tasks::convert` of `size` {what}; expected `string` \
             to `integer`\n  \u{20}entity `Task`, field `size` (src/tasks.rs:10)"
        );
        assert_refused(&task(&[text("size")]), &task(&[size(from, to)]), &expected);
    }
    assert_refused(
        &task(&[]),
        &task(&[size(
            TransformFrom::Record,
            transform_type(Kind::String, false),
        )]),
        "transform_signature: transform `tasks::convert` of `size` returns `string`; expected \
         `integer`\n  \u{20}entity `Task`, field `size` (src/tasks.rs:10)",
    );
}

#[test]
fn a_transform_that_does_not_take_null_is_refused() {
    let before = task(&[optional(text("size"))]);
    let convert = |from_optional| {
        let from = TransformFrom::Value(transform_type(Kind::String, from_optional));
        transform(from, transform_type(Kind::Integer, false))
    };
    let size = field("size", Kind::Integer);
    assert_refused(
        &before,
        &task(&[size.transform(convert(false))]),
        "transform_null: `size` may be null in the previous snapshot and is required now, but \
         transform `tasks::convert` does not take null\n  \
         \u{20}entity `Task`, field `size` (src/tasks.rs:10)",
    );
    let zero = || linchpin_core::Value::Int(0);
    for fits in [
        size.transform(convert(true)),
        optional(size).transform(convert(false)),
        size.literal(zero).transform(convert(false)),
    ] {
        let diff = between(&[&before], &[&task(&[fits])]);
        assert_eq!(kinds(&diff), ["changeType tasks size by tasks::convert"]);
    }
}

#[test]
fn a_required_field_without_a_value_is_refused() {
    assert_refused(
        &task(&[]),
        &task(&[text("owner")]),
        "required_needs_value: required field `owner` is added to existing records; give a \
         default, a fill transform, or make it optional\n  \
         \u{20}entity `Task`, field `owner` (src/tasks.rs:12)",
    );
}

#[test]
fn a_change_of_the_primary_key_is_refused() {
    let before = task(&[text("number")]);
    let after = EntityDesc {
        primary: 1,
        ..task(&[text("number")])
    };
    assert_refused(
        &before,
        &after,
        "primary_change: primary key of `Task` changes; create a new entity and copy\n  \
         \u{20}entity `Task`, field `number` (src/tasks.rs:12)",
    );
    let mut fields = before.fields.to_vec();
    fields[0].kind = Kind::Integer;
    let after = EntityDesc {
        fields: leaked(&fields),
        ..before
    };
    assert_refused(
        &task(&[text("number")]),
        &after,
        "primary_change: primary key of `Task` changes; create a new entity and copy\n  \
         \u{20}entity `Task`, field `id` (src/tasks.rs:11)",
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let before = task(&[text("name"), text("display"), text("size")]);
    let after = task(&[
        from("display", &["name"]),
        line(20, field("size", Kind::Integer)),
        line(21, field("owner", Kind::String)),
    ]);
    let other = entity(
        "User",
        "users",
        &[line(30, field("a", Kind::String)).rename_from(&["b"])],
    );
    let text = refused(&[&before, &entity("User", "users", &[])], &[&other, &after]);
    assert!(
        text.starts_with("rename_target_exists: 4 declarations need a correction\n"),
        "{text}"
    );
    for part in [
        "  rename_target_exists entity `Task`, field `display`: ",
        "  rename_source_missing entity `User`, field `a`: ",
        "  transform_required entity `Task`, field `size`: `size` changes from string",
        "  required_needs_value entity `Task`, field `owner`: required field `owner`",
        "(src/tasks.rs:20)",
        "(src/tasks.rs:21)",
        "(src/tasks.rs:30)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
