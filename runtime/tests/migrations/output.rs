//! The document for programs and the exit status.

use crate::{AppFolder, ProcessOutput};

#[track_caller]
fn check(output: &ProcessOutput, exit: i32, command: &str) {
    assert_eq!(output.exit, exit, "{output:?}");
    let json = output.json();
    assert_eq!(json["exit"], exit);
    assert_eq!(json["ok"], exit == 0);
    assert_eq!(json["command"], command);
    assert_eq!(json.get("error").is_some(), exit != 0);
    assert!(!output.out.contains("s3cret") && !output.err.contains("s3cret"));
}

#[test]
fn every_command_prints_one_document() {
    let place = AppFolder::recorded("plain");
    for (words, command) in [
        ("migrate record same", "migrate record"),
        ("migrate verify --offline", "migrate verify"),
        ("migrate squash --until 1", "migrate squash"),
        ("schema print", "schema print"),
    ] {
        check(&place.run("plain", &format!("{words} --json")), 0, command);
    }
    for (words, command) in [
        ("migrate plan --chekc --json", "migrate plan"),
        ("migrate apply --json --approve 12", "migrate apply"),
        ("migrate record --json", "migrate record"),
        ("migrate --json", "migrate"),
        (
            "migrate plan --json postgres://u:s3cret@h/d",
            "migrate plan",
        ),
    ] {
        let output = place.run("plain", words);
        check(&output, 2, command);
        assert_eq!(output.json()["error"]["code"], "usage");
    }
    check(
        &place.run("owned", "migrate record x --json"),
        3,
        "migrate record",
    );
}

#[test]
fn usage_errors_are_printed_for_people() {
    let output = AppFolder::new().run("plain", "migrate plan --chekc");
    assert_eq!((output.exit, output.out.as_str()), (2, ""));
    assert_eq!(
        output.err,
        "linchpin: unknown option `--chekc`; did you mean `--check`?\n  help: `--help` lists the \
         commands and options\n"
    );
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let place = AppFolder::recorded("plain");
    let url = "postgres://tasks:s3cret@127.0.0.1:1/tasks?sslmode=disable";
    for command in ["plan", "apply"] {
        let words = format!("migrate {command} --json --url {url}");
        let output = place.run("plain", &words);
        check(&output, 8, &format!("migrate {command}"));
        let words = format!("migrate {command} --url {url}");
        let output = place.run("plain", &words);
        assert_eq!((output.exit, output.out.as_str()), (8, ""), "{output:?}");
        assert!(!output.err.contains("s3cret"));
    }
}

#[test]
fn a_new_database_is_migrated_and_planned_again() {
    let place = AppFolder::recorded("plain");
    let url = "--url sqlite:tasks.db";
    let output = place.run("plain", &format!("migrate plan --check {url}"));
    assert_eq!(output.exit, 10, "{output:?}");
    assert!(
        output.out.starts_with("migration 1 start   sqlite "),
        "{output:?}"
    );
    let output = place.run("plain", &format!("migrate apply {url}"));
    assert_eq!(output.exit, 0, "{output:?}");
    let output = place.run("plain", &format!("migrate plan --check {url}"));
    assert_eq!(
        (output.exit, output.out.as_str()),
        (0, "nothing to do\n"),
        "{output:?}"
    );
    let output = place.run("plain", &format!("migrate verify --data {url}"));
    assert_eq!(
        (output.exit, output.out.as_str()),
        (0, "the database matches its ledger\n"),
        "{output:?}"
    );
    place.run("noted", "migrate record add_note");
    let output = place.run("noted", &format!("migrate status --json {url}"));
    check(&output, 0, "migrate status");
    assert_eq!(output.json()["result"]["seq"], 1);
    assert_eq!(output.json()["result"]["pending"][0]["name"], "add_note");
    let output = place.run("noted", &format!("migrate apply --json {url}"));
    check(&output, 0, "migrate apply");
    let output = place.run("noted", &format!("migrate status {url}"));
    assert!(
        output.out.contains("   installed   schema 2   accepts "),
        "{output:?}"
    );
    assert!(
        output.out.contains("\nmigration 2 add_note   done\n"),
        "{output:?}"
    );
}

#[test]
fn verification_lists_every_difference_of_a_database() {
    let place = AppFolder::recorded("indexed");
    let url = "--url sqlite:tasks.db";
    assert_eq!(
        place.run("indexed", &format!("migrate apply {url}")).exit,
        0
    );
    let file = place.folder.path().join("tasks.db");
    let database = rusqlite::Connection::open(file).unwrap();
    database
        .execute_batch(
            "DROP INDEX ix_tasks_size;
             ALTER TABLE tasks DROP COLUMN views;
             ALTER TABLE tasks ADD COLUMN hand TEXT;",
        )
        .unwrap();
    drop(database);
    let output = place.run("indexed", &format!("migrate verify {url}"));
    assert_eq!(output.exit, 5, "{output:?}");
    for line in [
        "error missing_index: ",
        "error missing_column: ",
        "warning extra_column: ",
    ] {
        assert!(output.out.contains(line), "{output:?}");
    }
    let output = place.run("indexed", &format!("migrate verify --json {url}"));
    assert_eq!((output.exit, &output.json()["ok"]), (5, &false.into()));
    assert_eq!(output.json()["exit"], 5);
}
