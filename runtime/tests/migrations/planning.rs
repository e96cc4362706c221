//! Refusals of planning: before a file is written, and before a database is contacted.

use crate::{AppFolder, ProcessOutput};

/// A URL with a closed port: a connection attempt would end with exit status 8.
const CLOSED: (&str, &str) = (
    "LINCHPIN_DATABASE_URL",
    "postgres://tasks:s3cret@127.0.0.1:1/tasks",
);

/// Checks that `record` refuses, and that `plan` refuses before it contacts the database.
fn refused(before: &str, after: &str) -> ProcessOutput {
    let place = AppFolder::recorded(before);
    let files = place.files();
    let output = place.run_in(after, "migrate record next", &[CLOSED]);
    assert_eq!((output.exit, output.out.as_str()), (3, ""), "{output:?}");
    assert_eq!(place.files(), files);
    let planned = place.run_in(after, "migrate plan --sql", &[CLOSED]);
    assert_eq!((planned.exit, planned.out.as_str()), (3, ""), "{planned:?}");
    assert_eq!(planned.err, output.err);
    output
}

#[test]
fn an_unknown_source_of_a_rename_is_refused_with_its_line() {
    let output = refused("plain", "misspelt");
    assert!(
        output.err.starts_with(
            "linchpin: field `view_count` is renamed from `veiws`, which the previous snapshot (1 \
             `start`) does not have; it has: `id`, `size`, `views`; did you mean `views`?\n  \
             entity `Task`, field `view_count`  (runtime/tests/migrations/declared.rs:"
        ),
        "{output:?}"
    );
}

#[test]
fn all_mistakes_in_renames_are_reported_together() {
    let output = refused("two_names", "mistaken");
    assert!(
        output
            .err
            .starts_with("linchpin: 2 declarations need a correction\n"),
        "{output:?}"
    );
    for part in [
        "rename_target_exists: entity `Task`, field `view_count`: field `view_count` already \
         exists in the previous snapshot and did not come from `views`",
        "rename_source_missing: entity `Task`, field `extent`: field `extent` is renamed from \
         `sizes`",
    ] {
        assert!(output.err.contains(part), "{output:?}");
    }
}

#[test]
fn a_source_of_two_entities_is_refused() {
    let output = refused("plain", "claimed");
    assert!(
        output
            .err
            .starts_with("linchpin: `tasks` is the `rename_from` of `items` and `things`\n"),
        "{output:?}"
    );
}

#[test]
fn a_new_type_needs_a_transform() {
    let output = refused("plain", "retyped");
    assert!(
        output.err.starts_with(
            "linchpin: `bytes` changes from string to integer; name a reviewed transform: \
             `transform = path`\n"
        ),
        "{output:?}"
    );
}

#[test]
fn a_required_field_needs_a_value() {
    let output = refused("plain", "owned");
    assert!(
        output.err.starts_with(
            "linchpin: required field `owner` is added to existing records; give a default, a \
             fill transform, or make it optional\n"
        ),
        "{output:?}"
    );
}
