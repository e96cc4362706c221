//! Tests that the steps between two snapshots lead to the tables of the second.

use linchpin_core::schema::{
    ComputedSnapshot, CounterSnapshot, EntitySnapshot, FieldDefault, FieldSnapshot, Snapshot,
    TtlSnapshot, VersionSnapshot,
};
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{
    any_snapshot, assert_steps_lead_to, entity, field, indexed, lines, snapshot, step_line, steps,
};
use crate::data::{DataAction, FillValue};
use crate::step::{Phase, Work};

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
    assert_steps_lead_to(&Snapshot::empty(), &after);
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
    assert_steps_lead_to(&before, &after);
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
fn a_replaced_field_is_computed_in_a_second_column() {
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
    assert_steps_lead_to(&before, &after);
}

#[test]
fn a_replaced_field_with_a_reverse_has_two_columns_until_the_contract_phase() {
    let posts =
        |name: &str, kind: &str, optional: bool| entity("posts", &[(name, field(kind, optional))]);
    let lowered = |was: EntitySnapshot, is: EntitySnapshot| {
        let found = steps(&snapshot([was]), &snapshot([is]), false);
        (found.fence, found.ready, found.reverses)
    };
    let kept = (None, Phase::Backfill, vec!["app::back".to_owned()]);
    let fenced = |why: &str| (Some(why.to_owned()), Phase::Contract, Vec::new());
    let both = |name: &str, was: bool, is: bool| {
        lowered(posts(name, "string", was), posts(name, "integer", is))
    };
    assert_eq!(both("t_k", false, false), kept);
    assert_eq!(both("t_k", true, true), kept);
    assert_eq!(both("t_nk", false, true), kept);
    assert_eq!(both("t", false, false), fenced("`t` gets another type"));
    assert_eq!(
        both("t_k", false, true),
        fenced("`t_k` gets another type, and null cannot be converted to the earlier type")
    );
    assert_eq!(
        both("t_used_k", false, false),
        fenced("`t_used_k` gets another type, and operation `find` uses it")
    );
    assert_eq!(
        lowered(
            indexed(posts("t_k", "string", false), false, &["t_k"]),
            posts("t_k", "integer", false)
        ),
        fenced("`t_k` gets another type, and an index contains it")
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
    assert_steps_lead_to(&before, &after);
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
    assert_eq!(fence, "`slug` is dropped, but it is in a unique index");
    let plain = snapshot([entity("posts", &slug())]);
    assert_eq!(steps(&plain, &after, false).fence, None);
}

/// Posts with a computed field, and users with a counter of their posts. `former` are the earlier
/// names of `by`, `input`, `total` and `user`; an empty one stands for no earlier name.
fn posts_with_counter(
    user: &str,
    by: &str,
    total: &str,
    input: &str,
    former: [&str; 4],
) -> Snapshot {
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
fn renames_do_not_recompute_counters_and_computed_fields() {
    let before = posts_with_counter("users", "user_id", "posts", "title", ["", "", "", ""]);
    let after = posts_with_counter(
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
    assert_eq!(
        data.map(step_line).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
    assert_steps_lead_to(&before, &after);
    // If a counter groups by another field, it is recounted.
    let mut other = after.clone();
    let posts = other.entities.get_mut("posts").expect("posts");
    posts.counters[0].by = "headline".to_owned();
    let lowered = steps(&before, &other, false);
    assert!(lowered.steps.iter().any(|step| step.kind == "recount"));
}

proptest! {
    #[test]
    fn the_steps_between_two_snapshots_lead_to_the_second(
        before in any_snapshot(),
        after in any_snapshot(),
    ) {
        assert_steps_lead_to(&before, &after);
    }

    #[test]
    fn equal_snapshots_need_no_steps(one in any_snapshot()) {
        for rebuilds in [false, true] {
            prop_assert_eq!(lines(&one, &one, rebuilds), "");
        }
    }
}
