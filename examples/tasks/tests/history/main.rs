//! Tests of the migrations of the example. Each version of the app migrates the database of the
//! previous one, on SQLite and, with the feature `postgres`, on PostgreSQL.

mod auth;
mod board;
mod chapter;
mod rows;
mod upgrade;
mod version;

use serde_json::Value as Json;

use version::{MIGRATION_NAMES, PRESENT, Version, file, migration, recorded};

/// With `UPDATE_GOLDEN` in the environment, the migrations are recorded again. An app with
/// databases must never do this; this example has none.
#[test]
fn each_version_is_recorded() {
    for number in 1..=PRESENT {
        let version = Version::with_migrations(number, number - 1, "sqlite:unused.db");
        version.run_to_end(&format!("record {}", MIGRATION_NAMES[number - 1]));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            for file in ["chain.json".to_owned(), file(number)] {
                std::fs::copy(version.migrations().join(&file), recorded().join(&file))
                    .expect("copied");
            }
        }
        assert!(
            migration(&version.migrations(), number) == migration(&recorded(), number),
            "version {number} declares something else than its migration; after a change of the \
             entities of linchpin-auth: UPDATE_GOLDEN=1 cargo test -p tasks --test history each_version"
        );
    }
    let present = Version::new(PRESENT, "sqlite:unused.db");
    assert_eq!(present.run_to_end("record more")["recorded"], false);
}

/// The changes of the entity in the recorded files.
#[test]
fn the_migrations_have_these_changes() {
    let changes = |number: usize| -> Vec<String> {
        let recorded = migration(&recorded(), number);
        let changes = recorded["changes"].as_array().expect("a list").iter();
        let text = |change: &Json, key: &str| change[key].as_str().unwrap_or_default().to_owned();
        changes
            .filter(|change| change["entity"] == "board_tasks")
            .map(|change| format!("{} {}", text(change, "kind"), text(change, "field")))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    let all: Vec<Vec<String>> = (1..=PRESENT).map(changes).collect();
    assert_eq!(
        all,
        [
            vec!["createEntity"],
            vec!["renameField title"],
            vec!["replaceField tags"],
            vec!["addField done_at", "addField priority"],
            vec!["addUnique"],
            vec!["widenEnum state"],
            vec!["narrowEnum state"],
            vec!["dropField notes"],
            vec!["addField title_key"],
            vec!["recompute title_key"],
            vec![
                "addField deleted_at",
                "dropField priority",
                "dropField title_key",
                "changeSoftDelete",
                "dropUnique",
                "addIndex",
                "addIndex",
                "dropIndex"
            ],
        ]
    );
}

#[test]
fn a_database_migrates_through_all_versions_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    upgrade::through_all_versions(&sqlite(&folder));
}

#[test]
fn killed_runs_can_be_repeated_on_sqlite() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let mut all = folders.iter();
    upgrade::killed::with_killed_runs(|| sqlite(all.next().expect("two databases")));
}

#[test]
fn a_migration_that_needs_a_removed_field_is_refused_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    upgrade::over_a_removed_field(&sqlite(&folder));
}

#[test]
fn a_database_migrates_over_two_auth_releases_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    auth::over_two_releases(&sqlite(&folder));
}

#[test]
fn only_the_last_version_migrates_over_the_removed_field_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    upgrade::over_a_removed_field_from_each_version(|number| {
        format!(
            "sqlite:{}",
            folder.path().join(format!("{number}.db")).display()
        )
    });
}

fn sqlite(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("tasks.db").display())
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_migrates_through_all_versions_on_postgres() {
    upgrade::through_all_versions(&example_support::postgres::fresh_database());
}

#[cfg(feature = "postgres")]
#[test]
fn killed_runs_can_be_repeated_on_postgres() {
    upgrade::killed::with_killed_runs(example_support::postgres::fresh_database);
}

#[cfg(feature = "postgres")]
#[test]
fn a_migration_that_needs_a_removed_field_is_refused_on_postgres() {
    upgrade::over_a_removed_field(&example_support::postgres::fresh_database());
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_migrates_over_two_auth_releases_on_postgres() {
    auth::over_two_releases(&example_support::postgres::fresh_database());
}
