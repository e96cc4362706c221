//! Tests of renames to names that a development start has taken.

use linchpin_core::schema::{Action, FieldSnapshot};

use super::fixture::{assert_steps_lead_to, entity, field, indexed, lines, snapshot, steps};
use crate::step::Work;

/// A development start without `rename_from` has added `view_count`, with an index.
#[test]
fn a_renamed_field_replaces_a_draft_field_with_the_same_name() {
    let added = entity(
        "posts",
        &[
            ("views", field("integer", false)),
            ("view_count", field("integer", true)),
        ],
    );
    let before = snapshot([indexed(added, false, &["view_count"])]);
    let renamed = FieldSnapshot {
        former_names: vec!["views".to_owned()],
        ..field("integer", false)
    };
    let fields = [("view_count", renamed.clone())];
    let after = snapshot([indexed(entity("posts", &fields), false, &["view_count"])]);
    assert_eq!(
        lines(&before, &after, true),
        "0002.01 expand createIndex posts ix_posts_view_count__next safe\n\
         0002.02 contract rebuildTable posts - destructive"
    );
    let lowered = steps(&before, &after, true);
    let Work::Schema(Action::Rebuild { columns, .. }) = &lowered.steps[1].work else {
        panic!("{lowered:?}")
    };
    let copied = ("view_count".to_owned(), "views".to_owned());
    assert!(columns.contains(&copied), "{columns:?}");
    assert_eq!(
        lowered.notes,
        [
            "a development start added field `view_count` to `posts`; its values are dropped, because \
          `views` is renamed to `view_count`"
        ]
    );
    assert_steps_lead_to(&before, &after);

    // An earlier migration renamed the field from `views`. It stays, and a later `views` is
    // dropped.
    let fields = [("views", field("integer", false)), ("view_count", renamed)];
    let recorded = snapshot([entity("posts", &fields)]);
    let lowered = steps(&recorded, &after, false);
    let dropped = lowered
        .steps
        .iter()
        .filter(|step| step.kind == "dropColumn");
    let dropped: Vec<_> = dropped.map(|step| step.object.as_deref()).collect();
    assert_eq!(dropped, [Some("views")]);
    assert_eq!(lowered.notes, [""; 0]);
}

#[test]
fn a_renamed_entity_replaces_a_draft_table_with_the_same_name() {
    let fields = [("views", field("integer", false))];
    let of = |name| indexed(entity(name, &fields), false, &["views"]);
    let before = snapshot([of("posts"), of("articles")]);
    let mut renamed = of("articles");
    renamed.former_names = vec!["posts".to_owned()];
    let after = snapshot([renamed]);
    for rebuilds in [false, true] {
        assert_eq!(
            lines(&before, &after, rebuilds),
            "0002.01 contract dropTable articles - destructive\n\
             0002.02 contract renameTable articles - breaking\n\
             0002.03 contract renameIndex articles ix_articles_views breaking"
        );
    }
    assert_steps_lead_to(&before, &after);
}
