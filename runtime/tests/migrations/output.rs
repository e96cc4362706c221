//! The document for programs and the exit status.

use crate::{Place, Said};

#[track_caller]
fn check(said: &Said, exit: i32, command: &str) {
    assert_eq!(said.exit, exit, "{said:?}");
    let json = said.json();
    assert_eq!(json["exit"], exit);
    assert_eq!(json["ok"], exit == 0);
    assert_eq!(json["command"], command);
    assert_eq!(json.get("error").is_some(), exit != 0);
    assert!(!said.out.contains("s3cret") && !said.err.contains("s3cret"));
}

#[test]
fn every_command_prints_one_document() {
    let place = Place::recorded("plain");
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
        let said = place.run("plain", words);
        check(&said, 2, command);
        assert_eq!(said.json()["error"]["code"], "usage");
    }
    check(
        &place.run("owned", "migrate record x --json"),
        3,
        "migrate record",
    );
}

#[test]
fn usage_errors_are_printed_for_people() {
    let said = Place::new().run("plain", "migrate plan --chekc");
    assert_eq!((said.exit, said.out.as_str()), (2, ""));
    assert_eq!(
        said.err,
        "linchpin: unknown option `--chekc`; did you mean `--check`?\n  help: `--help` lists the \
         commands and options\n"
    );
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let place = Place::recorded("plain");
    let url = "postgres://tasks:s3cret@127.0.0.1:1/tasks?sslmode=disable";
    for command in ["plan", "apply"] {
        let words = format!("migrate {command} --json --url {url}");
        let said = place.run("plain", &words);
        check(&said, 8, &format!("migrate {command}"));
        let words = format!("migrate {command} --url {url}");
        let said = place.run("plain", &words);
        assert_eq!((said.exit, said.out.as_str()), (8, ""), "{said:?}");
        assert!(!said.err.contains("s3cret"));
    }
}

#[test]
fn a_new_database_is_migrated_and_planned_again() {
    let place = Place::recorded("plain");
    let url = "--url sqlite:tasks.db";
    let said = place.run("plain", &format!("migrate plan --check {url}"));
    assert_eq!(said.exit, 10, "{said:?}");
    assert!(
        said.out.starts_with("migration 1 start   sqlite "),
        "{said:?}"
    );
    let said = place.run("plain", &format!("migrate apply {url}"));
    assert_eq!(said.exit, 0, "{said:?}");
    let said = place.run("plain", &format!("migrate plan --check {url}"));
    assert_eq!(
        (said.exit, said.out.as_str()),
        (0, "nothing to do\n"),
        "{said:?}"
    );
    let said = place.run("plain", &format!("migrate verify --data {url}"));
    assert_eq!(
        (said.exit, said.out.as_str()),
        (0, "the database is as its ledger says\n"),
        "{said:?}"
    );
    place.run("noted", "migrate record add_note");
    let said = place.run("noted", &format!("migrate status --json {url}"));
    check(&said, 0, "migrate status");
    assert_eq!(said.json()["result"]["seq"], 1);
    assert_eq!(said.json()["result"]["pending"][0]["name"], "add_note");
    let said = place.run("noted", &format!("migrate apply --json {url}"));
    check(&said, 0, "migrate apply");
    let said = place.run("noted", &format!("migrate status {url}"));
    assert!(
        said.out.contains("   installed   schema 2   accepts "),
        "{said:?}"
    );
    assert!(
        said.out.contains("\nmigration 2 add_note   done\n"),
        "{said:?}"
    );
}

#[test]
fn verification_lists_every_difference_of_a_database() {
    let place = Place::recorded("indexed");
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
    let said = place.run("indexed", &format!("migrate verify {url}"));
    assert_eq!(said.exit, 5, "{said:?}");
    for line in [
        "error missing_index: ",
        "error missing_column: ",
        "warning extra_column: ",
    ] {
        assert!(said.out.contains(line), "{said:?}");
    }
    let said = place.run("indexed", &format!("migrate verify --json {url}"));
    assert_eq!((said.exit, &said.json()["ok"]), (5, &false.into()));
    assert_eq!(said.json()["exit"], 5);
}
