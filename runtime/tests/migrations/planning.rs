//! Refusals of planning: before a file is written, and before a database is contacted.

use crate::{Place, Said};

/// A port at which nothing listens: a connection to it would end with the exit status 8.
const CLOSED: (&str, &str) = (
    "LINCHPIN_DATABASE_URL",
    "postgres://tasks:s3cret@127.0.0.1:1/tasks",
);

/// Refuses in `record` and, on a database that cannot be reached, in `plan`.
fn refused(before: &str, after: &str) -> Said {
    let place = Place::recorded(before);
    let files = place.files();
    let said = place.run_in(after, "migrate record next", &[CLOSED]);
    assert_eq!((said.exit, said.out.as_str()), (3, ""), "{said:?}");
    assert_eq!(place.files(), files);
    let planned = place.run_in(after, "migrate plan --sql", &[CLOSED]);
    assert_eq!((planned.exit, planned.out.as_str()), (3, ""), "{planned:?}");
    assert_eq!(planned.err, said.err);
    said
}

#[test]
fn an_unknown_source_of_a_rename_is_refused_with_its_line() {
    let said = refused("plain", "misspelt");
    assert!(
        said.err.starts_with(
            "linchpin: field `view_count` is renamed from `veiws`, which the previous snapshot (1 \
             `start`) does not have; it has: `id`, `size`, `views`; did you mean `views`?\n  \
             entity `Task`, field `view_count`  (runtime/tests/migrations/declared.rs:"
        ),
        "{said:?}"
    );
}

#[test]
fn all_mistakes_in_renames_are_reported_together() {
    let said = refused("two_names", "mistaken");
    assert!(
        said.err
            .starts_with("linchpin: 2 declarations need a correction\n"),
        "{said:?}"
    );
    for part in [
        "rename_target_exists: entity `Task`, field `view_count`: field `view_count` already \
         exists in the previous snapshot and did not come from `views`",
        "rename_source_missing: entity `Task`, field `extent`: field `extent` is renamed from \
         `sizes`",
    ] {
        assert!(said.err.contains(part), "{said:?}");
    }
}

#[test]
fn a_source_of_two_entities_is_refused() {
    let said = refused("plain", "claimed");
    assert!(
        said.err
            .starts_with("linchpin: `tasks` is claimed by `items` and `things`\n"),
        "{said:?}"
    );
}

#[test]
fn a_new_type_needs_a_transform() {
    let said = refused("plain", "retyped");
    assert!(
        said.err.starts_with(
            "linchpin: `bytes` changes from string to integer; name a reviewed transform: \
             `transform = path`\n"
        ),
        "{said:?}"
    );
}

#[test]
fn a_required_field_needs_a_value() {
    let said = refused("plain", "owned");
    assert!(
        said.err.starts_with(
            "linchpin: required field `owner` is added to existing records; give a default, a \
             fill transform, or make it optional\n"
        ),
        "{said:?}"
    );
}
