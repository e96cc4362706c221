//! Commands on databases: phases, rollbacks, squashed chains, and the document of each command.

use serde_json::json;

use crate::serving::PRODUCTION;
use crate::starting::{Database, apply, refused, with_next_migration};
use crate::{AppFolder, ProcessOutput};

/// Runs a command on a database.
fn run_on(place: &AppFolder, generation: &str, url: &str, words: &str) -> ProcessOutput {
    place.run_in(generation, words, &[("LINCHPIN_DATABASE_URL", url)])
}

/// Runs a command that must be refused; returns its document.
#[track_caller]
fn refused_with(output: &ProcessOutput, exit: i32, code: &str) -> serde_json::Value {
    let json = output.json();
    assert_eq!(
        (output.exit, &json["exit"], &json["error"]["code"]),
        (exit, &json!(exit), &json!(code)),
        "{output:?}"
    );
    json
}

/// The option that approves a plan.
fn approval(output: &ProcessOutput) -> String {
    let json = output.json();
    let digest = json["result"]["approvalDigest"].as_str().unwrap();
    format!("--approve {digest}")
}

#[test]
fn phases_run_in_order_and_move_the_accepted_versions() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        let new = with_next_migration(&old, "served_changed");
        let run = |words: &str| run_on(&new, "served_changed", url, words);
        let window = || {
            ["min_seq", "max_seq"].map(|bound| {
                database
                    .texts(&format!("SELECT {bound} FROM linchpin_schema"))
                    .remove(0)
            })
        };
        let approve = approval(&run("migrate plan --json"));
        let early = run(&format!("migrate apply --phase contract {approve} --json"));
        let json = refused_with(&early, 3, "phase_order");
        let text = json["error"]["details"].to_string();
        assert!(
            text.contains("0002.01 expand addColumn tasks.note"),
            "{text}"
        );
        assert_eq!(window(), ["1", "1"]);
        for (options, expected) in [
            ("--phase expand".to_owned(), ["1", "2"]),
            ("--phase backfill".to_owned(), ["1", "2"]),
            (format!("--phase contract {approve}"), ["2", "2"]),
        ] {
            let done = run(&format!("migrate apply {options} --json"));
            assert_eq!(done.exit, 0, "{done:?}");
            assert_eq!(window(), expected);
        }
    }
}

#[test]
fn a_rollback_shows_what_it_drops_and_needs_its_digest() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        let new = with_next_migration(&old, "served_changed");
        let run = |words: &str| run_on(&new, "served_changed", url, words);
        apply(&new, "served_changed", url, "--phase expand");
        for n in 0..8 {
            let note = if n < 5 { "'kept'" } else { "NULL" };
            database.execute(&format!(
                "INSERT INTO tasks (id, views, size, note) VALUES ('{n}', 0, 's', {note})"
            ));
        }
        assert_eq!(run("migrate plan --rollback --check").exit, 10);
        let plan = run("migrate plan --rollback --json");
        assert_eq!(plan.exit, 0, "{plan:?}");
        assert_eq!(plan.json()["result"]["state"]["lost"][0]["records"], 5);
        let printed = run("migrate plan --rollback");
        assert!(
            printed.out.contains("5 records lose a value"),
            "{printed:?}"
        );

        let columns = "SELECT note FROM tasks WHERE note IS NOT NULL";
        let unapproved = run("migrate rollback --json");
        refused_with(&unapproved, 4, "approval_required");
        let wrong = run(&format!(
            "migrate rollback --json --approve {}",
            "0".repeat(64)
        ));
        refused_with(&wrong, 4, "approval_mismatch");
        assert_eq!(database.texts(columns).len(), 5);
        // The digest of the plan of `apply` approves no rollback.
        let other = approval(&run("migrate plan --json"));
        let other = run(&format!("migrate rollback --json {other}"));
        refused_with(&other, 4, "approval_mismatch");

        let done = run(&format!("migrate rollback {} --json", approval(&plan)));
        assert_eq!((done.exit, &done.json()["result"]["seq"]), (0, &json!(1)));
        refused(new.serve("served_changed", url, &PRODUCTION));
        let served = old.serve("served", url, &PRODUCTION).unwrap();
        assert_eq!(
            served.get("/tasks").body["items"].as_array().unwrap().len(),
            8
        );
        served.stop();

        // Applies the migration again with its contract phase. A rollback is then too late.
        apply(&new, "served_changed", url, "");
        for words in ["migrate plan --rollback --json", "migrate rollback --json"] {
            refused_with(&run(words), 4, "rollback_closed");
        }
    }
}

#[test]
fn a_chain_is_squashed_if_the_database_has_finished_it() {
    for database in Database::each() {
        let url = &database.url();
        let old = AppFolder::recorded("served");
        apply(&old, "served", url, "");
        let new = with_next_migration(&old, "served_noted");
        let run = |words: &str| run_on(&new, "served_noted", url, words);
        let squash = format!("migrate squash --until 2 --url {url} --json");
        let before = new.files();
        refused_with(&run(&squash), 3, "migration_unfinished");
        assert_eq!(new.files(), before);

        apply(&new, "served_noted", url, "");
        let done = run(&squash);
        assert_eq!(done.exit, 0, "{done:?}");
        let names: Vec<String> = new.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["0002_baseline.json", "chain.json"]);
        assert_eq!(run("migrate plan --check").exit, 0);
        let verified = run("migrate verify");
        assert_eq!(verified.exit, 0, "{verified:?}");
        let unknown = run(&format!("migrate squash --until 3 --url {url} --json"));
        refused_with(&unknown, 3, "migration_unfinished");
        drop(new.serve("served_noted", url, &PRODUCTION).unwrap());
    }
}

#[test]
fn sql_that_names_a_renamed_column_ends_the_overlap() {
    let database = Database::Sqlite(tempfile::tempdir().unwrap());
    let url = &database.url();
    let old = AppFolder::recorded("served");
    apply(&old, "served", url, "");
    for (generation, overlap) in [("plain_sql", false), ("following_sql", true)] {
        let new = with_next_migration(&old, generation);
        let plan = run_on(&new, generation, url, "migrate plan --json").json();
        let migration = &plan["result"]["migrations"][0];
        assert_eq!(migration["overlap"], overlap, "{plan:#}");
        let printed = run_on(&new, generation, url, "migrate plan").out;
        let reason = "overlap: no (the SQL of operation `popular` names `view_count`, which is \
                      renamed; write `{column:view_count}`, which follows the rename)";
        assert_eq!(printed.contains(reason), !overlap, "{printed}");
    }
}

#[test]
fn every_command_on_a_database_prints_one_document() {
    let secret = "s3cret";
    for database in Database::each() {
        let url = &database.url();
        let place = AppFolder::recorded("plain");
        let run = |generation: &str, words: &str| {
            let output = run_on(&place, generation, url, &format!("{words} --json"));
            let command: Vec<&str> = words.split(' ').take(2).collect();
            let json = output.json();
            assert_eq!(json["command"], command.join(" "), "{output:?}");
            assert_eq!(json["exit"], output.exit, "{output:?}");
            assert_eq!(
                json["ok"],
                output.exit == 0 || output.exit == 10,
                "{output:?}"
            );
            assert!(
                !output.out.contains(secret) && !output.err.contains(secret),
                "{output:?}"
            );
            output.exit
        };
        assert_eq!(run("plain", "migrate plan --check"), 10);
        for words in [
            "migrate apply --dry-run",
            "migrate apply",
            "migrate apply",
            "migrate plan --sql",
            "migrate status",
            "migrate verify --data --strict",
            "migrate restore 1",
        ] {
            assert_eq!(run("plain", words), 0, "{words}");
        }
        // Each command with an unknown option, and with a wrong use of `--until`.
        for words in [
            "record x",
            "plan",
            "apply",
            "verify",
            "status",
            "adopt",
            "restore 1",
            "rebase start",
            "squash --until 1",
            "rollback",
        ] {
            assert_eq!(
                run("plain", &format!("migrate {words} --bogus")),
                2,
                "{words}"
            );
            let nowhere = format!("migrate {words} --until --until");
            assert_eq!(run("plain", &nowhere), 2, "{words}");
        }
        // A mistake in the declarations is reported before a database is contacted.
        for words in ["record x", "plan", "apply", "status", "verify", "adopt"] {
            let unreachable = "--url postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable";
            assert_eq!(
                run("misspelt", &format!("migrate {words} {unreachable}")),
                3,
                "{words}"
            );
        }
        for words in [
            "plan",
            "apply",
            "status",
            "verify",
            "adopt",
            "rollback",
            "plan --rollback",
            "restore 1",
            "squash --until 1",
        ] {
            let unreachable = "--url postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable";
            assert_eq!(
                run("plain", &format!("migrate {words} {unreachable}")),
                8,
                "{words}"
            );
        }
    }
}
