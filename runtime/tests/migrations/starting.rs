//! The start of a server: accepted databases, changes to a database in development, and refusals.

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::AppFolder;
use crate::server;
use crate::serving::{PRODUCTION, Served};

/// A test database, on `SQLite` or on `PostgreSQL`.
pub enum Database {
    Sqlite(TempDir),
    Postgres(String),
}

impl Database {
    pub fn each() -> [Self; 2] {
        [Self::sqlite(), Self::postgres()]
    }

    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    fn postgres() -> Self {
        Self::Postgres(server::fresh_database())
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("tasks.db").display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    pub fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(_) => self.file().execute_batch(sql).unwrap(),
            Self::Postgres(url) => server::execute(url, sql).unwrap(),
        }
    }

    /// The first column of every row, as text.
    pub fn texts(&self, sql: &str) -> Vec<String> {
        match self {
            Self::Sqlite(_) => {
                let file = self.file();
                let mut statement = file.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| {
                    row.get_ref(0).map(|cell| match cell {
                        rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                        other => other.as_str().unwrap_or_default().to_owned(),
                    })
                });
                rows.unwrap().map(Result::unwrap).collect()
            }
            // The helper function reads two columns.
            Self::Postgres(url) => {
                let sql = sql.replacen(" FROM ", ", '' FROM ", 1);
                server::rows(url, &sql, |first, _| first)
            }
        }
    }

    fn file(&self) -> Connection {
        let Self::Sqlite(folder) = self else {
            panic!("no file")
        };
        let file = Connection::open(folder.path().join("tasks.db")).unwrap();
        file.busy_timeout(std::time::Duration::from_secs(5))
            .unwrap();
        file
    }

    fn columns(&self) -> Vec<String> {
        self.texts(match self {
            Self::Sqlite(_) => "SELECT name FROM pragma_table_info('tasks') ORDER BY name",
            Self::Postgres(_) => {
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'tasks' ORDER BY column_name"
            }
        })
    }
}

/// Runs `migrate apply`, with the digest of the plan if it needs one.
pub fn apply(place: &AppFolder, generation: &str, url: &str, options: &str) {
    let target = [("LINCHPIN_DATABASE_URL", url)];
    let plan = place.run_in(generation, "migrate plan --json", &target);
    let digest = &plan.json()["result"]["approvalDigest"];
    let approve = match digest.as_str() {
        Some(digest) if options.is_empty() => format!("--approve {digest}"),
        _ => String::new(),
    };
    let words = format!("migrate apply {options} {approve}");
    let output = place.run_in(generation, &words, &target);
    assert_eq!(output.exit, 0, "{output:?}");
}

/// A folder with the recorded migrations of another one, and one more.
pub fn with_next_migration(place: &AppFolder, generation: &str) -> AppFolder {
    let next = AppFolder::new();
    let folder = next.folder.path().join("migrations");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in place.files() {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let output = next.run(generation, "migrate record next");
    assert_eq!(output.exit, 0, "{output:?}");
    next
}

/// The message of a refused start.
#[track_caller]
pub fn refused(start: Result<Served, (i32, String)>) -> String {
    match start {
        Ok(_) => panic!("it serves"),
        Err((exit, text)) => {
            assert_eq!(exit, 78, "{text}");
            text
        }
    }
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_binary_serves_only_after_its_migration_is_expanded() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        let new = with_next_migration(&old, "served_noted");

        let text = refused(new.serve("served_noted", url, &PRODUCTION));
        assert_contains(
            &text,
            &[
                "linchpin: this binary cannot serve database `",
                "\n\nbinary schema    2  next              sha256 ",
                "\ndatabase accepts 1 .. 1               (migration 2 not expanded)\n",
                "\n  missing: table `tasks` column `note` (step 0002.01)\n",
                "\n  help: run `migrate apply --phase expand` with this binary, then start it\n",
            ],
        );
        apply(&new, "served_noted", url, "--phase expand");
        let served = new.serve("served_noted", url, &PRODUCTION).unwrap();
        let task = json!({ "size": "s", "note": "n" });
        assert_eq!(served.post("/tasks", &task).status, 201);
        // The earlier binary still serves.
        let earlier = old.serve("served", url, &PRODUCTION).unwrap();
        assert_eq!(earlier.get("/tasks").body["items"][0]["size"], "s");
        let live = database.texts("SELECT seq FROM linchpin_instances ORDER BY seq");
        assert_eq!(live, ["1", "2"]);
        earlier.stop();
        served.stop();
        let live = database.texts("SELECT seq FROM linchpin_instances ORDER BY seq");
        assert!(live.is_empty(), "{live:?}");
    }
}

#[test]
fn an_earlier_binary_is_refused_after_the_contract() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        let new = with_next_migration(&old, "served_dropped");
        apply(&new, "served_dropped", url, "");
        let text = refused(old.serve("served", url, &PRODUCTION));
        assert_contains(
            &text,
            &[
                "\nbinary schema    1  start             sha256 ",
                "\ndatabase accepts 2 .. 2\n",
                "\n  help: deploy a binary of schema 2 or newer; migration 2 reached its contract phase at 20",
            ],
        );
        drop(new.serve("served_dropped", url, &PRODUCTION).unwrap());
    }
}

#[test]
fn production_refuses_what_is_not_recorded_and_an_empty_database() {
    let database = Database::sqlite();
    let url = &database.url();
    let text = refused(AppFolder::new().serve("served", url, &PRODUCTION));
    assert_contains(
        &text,
        &[
            "\nbinary schema    0  (none)",
            "\n  the app has no recorded migrations\n",
            "linchpin::migrations!(\"migrations\")",
        ],
    );
    let place = AppFolder::recorded("served");
    let text = refused(place.serve("served_noted", url, &PRODUCTION));
    assert_contains(
        &text,
        &[
            "\n  the declared schema differs from the newest recorded migration\n",
            "\n  not recorded: 0002.01 expand addColumn tasks.note\n",
        ],
    );
    let text = refused(place.serve("served", url, &PRODUCTION));
    assert_contains(
        &text,
        &[
            "\n  the database has no tables yet\n",
            "\n  help: run `migrate apply` with this binary, then start it\n",
        ],
    );
    // The refused start created no table.
    assert!(database.texts("SELECT name FROM sqlite_schema").is_empty());
}

#[test]
fn a_development_start_creates_extends_and_keeps() {
    let database = Database::sqlite();
    let (place, url) = (AppFolder::new(), &database.url());
    let served = place.serve("served", url, &[]).unwrap();
    assert_eq!(served.post("/tasks", &json!({ "size": "a" })).status, 201);
    served.stop();
    assert_eq!(database.columns(), ["id", "size", "views"]);

    let served = place.serve("served_noted", url, &[]).unwrap();
    let task = json!({ "size": "b", "note": "n" });
    assert_eq!(served.post("/tasks", &task).status, 201);
    served.stop();
    assert_eq!(database.columns(), ["id", "note", "size", "views"]);

    // The columns of removed fields stay. New records get a value in the required column.
    let served = place.serve("served_dropped", url, &[]).unwrap();
    assert_contains(&served.log, &["contract rebuildTable tasks"]);
    let created = served.post("/tasks", &json!({}));
    assert_eq!(created.status, 201, "{created:?}");
    served.stop();
    assert_eq!(database.columns(), ["id", "note", "size", "views"]);
    let sizes = database.texts("SELECT size FROM tasks ORDER BY size");
    assert_eq!(sizes, ["", "a", "b"]);
}

#[test]
fn a_development_start_serves_a_renamed_field_under_its_earlier_column() {
    let database = Database::sqlite();
    let (place, url) = (AppFolder::new(), &database.url());
    let served = place.serve("served", url, &[]).unwrap();
    let task = json!({ "size": "a", "views": 7 });
    assert_eq!(served.post("/tasks", &task).status, 201);
    served.stop();

    let served = place.serve("served_renamed", url, &[]).unwrap();
    assert_eq!(served.get("/tasks").body["items"][0]["viewCount"], 7);
    let task = json!({ "size": "b", "viewCount": 8 });
    assert_eq!(served.post("/tasks", &task).status, 201);
    assert_eq!(database.columns(), ["id", "size", "views"]);
    served.stop();
}

#[test]
fn a_rename_that_is_declared_after_a_start_keeps_the_values_of_the_former_field() {
    for is_recorded in [false, true] {
        let database = Database::sqlite();
        let (place, url) = (AppFolder::new(), &database.url());
        if is_recorded {
            assert_eq!(place.run("served", "migrate record start").exit, 0);
        }
        let served = place.serve("served", url, &[]).unwrap();
        let task = json!({ "size": "a", "views": 7 });
        assert_eq!(served.post("/tasks", &task).status, 201);
        served.stop();

        // Without `rename_from`, the start adds a column.
        let served = place.serve("served_forgotten", url, &[]).unwrap();
        assert_eq!(served.get("/tasks").body["items"][0]["viewCount"], 0);
        served.stop();
        assert_eq!(database.columns(), ["id", "size", "view_count", "views"]);

        let output = place.run("served_renamed", "migrate record rename");
        assert_eq!(output.exit, 0, "{output:?}");
        let target = [("LINCHPIN_DATABASE_URL", url.as_str())];
        let plan = place.run_in("served_renamed", "migrate plan", &target);
        assert_contains(
            &plan.out,
            &[
                "rebuildTable",
                "destructive",
                "\n              renames `views` to `view_count`\n",
                "note: a development start added field `view_count` to `tasks`; its values are \
                 dropped, because `views` is renamed to `view_count`\n",
            ],
        );
        drop(place.serve("served_renamed", url, &[]).unwrap());
        apply(&place, "served_renamed", url, "");
        let served = place.serve("served_renamed", url, &PRODUCTION).unwrap();
        assert_eq!(served.get("/tasks").body["items"][0]["viewCount"], 7);
        served.stop();
        assert_eq!(database.columns(), ["id", "size", "view_count"]);
    }
}

#[test]
fn a_development_start_on_postgres_creates_and_never_changes() {
    let database = Database::postgres();
    let (place, url) = (AppFolder::new(), &database.url());
    let served = place.serve("served", url, &[]).unwrap();
    assert_eq!(served.post("/tasks", &json!({ "size": "a" })).status, 201);
    served.stop();
    let text = refused(place.serve("served_noted", url, &[]));
    assert_contains(
        &text,
        &[
            "\n  pending: 0001.01 expand addColumn tasks.note\n",
            "\n  help: run `migrate record NAME` and `migrate apply`, then start again\n",
        ],
    );
    assert_eq!(database.columns(), ["id", "size", "views"]);
    drop(place.serve("served", url, &[]).unwrap());
}

#[test]
fn recording_a_draft_adopts_its_changes() {
    for database in Database::each() {
        let (place, url) = (AppFolder::new(), &database.url());
        place.serve("served", url, &[]).unwrap().stop();
        let output = place.run("served", "migrate record start");
        assert_eq!(output.exit, 0, "{output:?}");
        let run = |words: &str| {
            let output = place.run_in("served", words, &[("LINCHPIN_DATABASE_URL", url)]);
            (output.exit, output.out)
        };
        // Production refuses the database until its ledger has the migration.
        let (exit, plan) = run("migrate plan --check");
        assert_eq!(exit, 10, "{plan}");
        assert_contains(
            &plan,
            &["\nno step is needed; `migrate apply` records the migration in the database\n"],
        );
        let done = "no step was needed; migration 1 is installed\n";
        assert_eq!(run("migrate apply"), (0, done.to_owned()));
        assert_eq!(database.texts("SELECT seq FROM linchpin_schema"), ["1"]);
        let done = "nothing to do; migration 1 is installed\n";
        assert_eq!(run("migrate apply"), (0, done.to_owned()));
        assert_eq!(
            run("migrate plan --check"),
            (0, "nothing to do\n".to_owned())
        );
        drop(place.serve("served", url, &PRODUCTION).unwrap());
    }
}

#[test]
fn five_concurrent_starts_create_one_database() {
    for database in Database::each() {
        let (place, url) = (AppFolder::new(), &database.url());
        place.choose("served");
        std::thread::scope(|scope| {
            let starts: Vec<_> = (0..5)
                .map(|_| scope.spawn(|| place.serve("served", url, &[]).unwrap()))
                .collect();
            let served: Vec<Served> = starts.into_iter().map(|s| s.join().unwrap()).collect();
            for one in &served {
                assert_eq!(one.post("/tasks", &json!({ "size": "a" })).status, 201);
            }
            assert_eq!(served[0].get("/tasks").body["items"][4]["size"], "a");
            let instances = database.texts("SELECT id FROM linchpin_instances");
            assert_eq!(instances.len(), 5);
        });
        assert_eq!(database.texts("SELECT id FROM linchpin_schema"), ["schema"]);
    }
}

#[test]
fn tables_without_a_ledger_are_adopted_only_in_development_and_if_they_are_equal() {
    let forget = "DROP TABLE linchpin_schema; DROP TABLE linchpin_migrations; \
                  DROP TABLE linchpin_migration_steps; DROP TABLE linchpin_instances";
    for database in Database::each() {
        let url = &database.url();
        let place = AppFolder::recorded("served");
        apply(&place, "served", url, "");
        database.execute(forget);
        let text = refused(place.serve("served", url, &PRODUCTION));
        assert_contains(
            &text,
            &[
                "\n  the database has tables of this app but no ledger of migrations: `tasks`\n",
                "\n  help: `migrate adopt` compares them with the declared schema",
            ],
        );
        if matches!(database, Database::Postgres(_)) {
            let text = refused(place.serve("served", url, &[]));
            assert_contains(&text, &["`migrate adopt`"]);
            continue;
        }
        let other = AppFolder::new();
        let text = refused(other.serve("served_noted", url, &[]));
        assert_contains(
            &text,
            &["`migrate adopt`", "missing_column: table `tasks` `note`"],
        );
        place.serve("served", url, &[]).unwrap().stop();
        drop(place.serve("served", url, &PRODUCTION).unwrap());
    }
}

#[test]
fn a_table_that_differs_from_the_ledger_stops_the_start() {
    for database in Database::each() {
        let url = &database.url();
        let place = AppFolder::new();
        place.serve("served", url, &[]).unwrap().stop();
        database.execute("ALTER TABLE tasks DROP COLUMN size");
        let text = refused(place.serve("served", url, &[]));
        assert_contains(
            &text,
            &[
                "\n  the tables differ from the ledger\n",
                "\n  missing_column: table `tasks` `size`",
                "\n  help: undo the change by hand; `migrate verify` lists every difference\n",
            ],
        );
        let tolerant = [("LINCHPIN_SCHEMA_CHECK", "warn")];
        let served = place.serve("served", url, &tolerant).unwrap();
        assert_contains(&served.log, &["the tables differ from the ledger"]);
    }
}

#[test]
fn tables_of_the_framework_are_expanded_by_their_version() {
    for database in Database::each() {
        let url = &database.url();
        let place = AppFolder::recorded("served");
        apply(&place, "served", url, "");
        // The framework's tables as an earlier release created them.
        database.execute(
            "UPDATE linchpin_schema SET system = 0; DROP TABLE linchpin_audit_entries; \
             DROP TABLE linchpin_consumers",
        );
        let text = refused(place.serve("served", url, &PRODUCTION));
        assert_contains(
            &text,
            &[
                "\n  the framework's tables have version 0; this binary needs version 1\n",
                "\n  help: run `migrate apply --phase expand` with this binary",
            ],
        );
        apply(&place, "served", url, "--phase expand");
        drop(place.serve("served", url, &PRODUCTION).unwrap());
        assert_eq!(database.texts("SELECT system FROM linchpin_schema"), ["1"]);
    }
}
