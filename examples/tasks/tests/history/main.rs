//! The migrations of the example: each version of the app takes over the database of the one
//! before, on SQLite and, if it is built in, on PostgreSQL.

mod auth;
mod board;
mod chapter;
mod rows;
mod version;
mod walk;

use serde_json::Value as Json;

use version::{NAMES, PRESENT, Version, file, migration, recorded};

/// With `UPDATE_GOLDEN` in the environment the migrations are recorded anew. That is right only
/// because nobody has a database of this example to keep.
#[test]
fn each_version_is_recorded() {
    for number in 1..=PRESENT {
        let version = Version::with(number, number - 1, "sqlite:unused.db");
        version.done(&format!("record {}", NAMES[number - 1]));
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
    assert_eq!(present.done("record more")["recorded"], false);
}

/// What the migrations change in the tasks, by the recorded files.
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
fn all_versions_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    walk::all(&sqlite(&folder));
}

#[test]
fn killed_runs_on_sqlite() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let mut all = folders.iter();
    walk::killed::all(|| sqlite(all.next().expect("two databases")));
}

#[test]
fn a_version_too_far_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    walk::with_gaps(&sqlite(&folder));
}

#[test]
fn older_accounts_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    auth::two_releases_at_once(&sqlite(&folder));
}

#[test]
fn each_version_too_far_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    walk::gaps_of_each(|number| {
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
fn all_versions_on_postgres() {
    walk::all(&example_support::postgres::fresh_database());
}

#[cfg(feature = "postgres")]
#[test]
fn killed_runs_on_postgres() {
    walk::killed::all(example_support::postgres::fresh_database);
}

#[cfg(feature = "postgres")]
#[test]
fn a_version_too_far_on_postgres() {
    walk::with_gaps(&example_support::postgres::fresh_database());
}

#[cfg(feature = "postgres")]
#[test]
fn older_accounts_on_postgres() {
    auth::two_releases_at_once(&example_support::postgres::fresh_database());
}
