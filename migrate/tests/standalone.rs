//! Tests of the program `linchpin` with saved files, without the source and the functions of an
//! app.
//!
//! The test program starts itself as `linchpin`. The variable `ARGUMENTS` has the arguments.
#![allow(clippy::expect_used, clippy::unwrap_used)] // in a test, a panic reports the failure

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use linchpin_core::schema::SchemaStore;
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_migrate::{Exit, Refusal, cli};
use linchpin_sqlite::SqliteProvider;
use serde_json::{Value as Json, json};

/// The last line before the output of the program.
const MARK: &str = "-- the output of the program --";

/// Runs as the program `linchpin`. It is not a test itself.
#[test]
#[ignore = "the program that other tests run"]
fn program() {
    let Ok(arguments) = std::env::var("ARGUMENTS") else {
        return;
    };
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    println!("{MARK}");
    let status = cli::standalone(&arguments, &open);
    // Exits here, so that the test harness prints no further output.
    std::process::exit(status);
}

fn open(url: &DatabaseUrl) -> Result<Arc<dyn SchemaStore>, Refusal> {
    let refused = || Refusal::new("target_refused", Exit::Target, "no file of SQLite");
    let schema = SqliteProvider::default().schema(url);
    schema.ok().flatten().ok_or_else(refused)
}

/// Runs the program in a folder; returns the exit status and the output.
fn run(folder: &Path, arguments: &str) -> (i32, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program", "--ignored", "--nocapture"])
        .args(["--test-threads", "1"])
        .current_dir(folder)
        .env_clear()
        .env("ARGUMENTS", arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text
        .split_once(&format!("{MARK}\n"))
        .expect("the program starts");
    (output.status.code().unwrap(), text.to_owned())
}

fn snapshot(kind: &str) -> Json {
    let field = |kind: &str, name: &str| json!({ "type": kind, "column": name, "optional": false, "formerNames": [] });
    let mut id = field("string", "id");
    id["default"] = json!({ "kind": "uuid" });
    json!({ "format": 2, "entities": { "files": {
        "name": "File", "storageName": "files", "formerNames": [], "primary": "id",
        "fields": { "id": id, "size": field(kind, "size") },
        "indexes": [], "uniques": [], "counters": [], "checks": [],
    } } })
}

#[test]
fn saved_files_are_planned_and_applied_without_an_app() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("saved.json"), snapshot("string").to_string()).unwrap();
    let with = |words: &str| {
        format!("--schema saved.json --dir migrations --url sqlite:files.db {words} --json")
    };
    let json = |words: &str| -> (i32, Json) {
        let (exit, text) = run(dir, &with(words));
        let json: Json = serde_json::from_str(&text).expect("one document");
        assert_eq!(json["exit"], exit);
        (exit, json)
    };
    assert_eq!(json("migrate record start").0, 0);
    let (exit, plan) = json("migrate plan");
    assert_eq!(
        (exit, plan["result"]["migrations"][0]["name"].as_str()),
        (0, Some("start"))
    );
    assert!(!dir.join("files.db").exists(), "a plan creates nothing");
    assert_eq!(json("migrate apply").0, 0);
    assert_eq!(json("migrate plan --check").0, 0);

    // The second migration converts values with a function that only the app has.
    let changes = json!([
        { "kind": "changeType", "entity": "files", "field": "size", "transform": "app::parse" }
    ]);
    let transforms = json!([
        { "name": "app::parse", "from": "string", "to": "integer", "body": "5f".repeat(32) }
    ]);
    write_second_migration(dir, &changes, &transforms);
    let (exit, plan) = json("migrate plan");
    assert_eq!(exit, 0, "{plan}");
    let digest = plan["result"]["approvalDigest"].as_str().unwrap();
    for phase in ["", " --phase backfill"] {
        let (exit, refused) = json(&format!("migrate apply{phase} --approve {digest}"));
        assert_eq!(
            (exit, refused["error"]["code"].as_str()),
            (3, Some("transform_unavailable")),
            "{refused}"
        );
        let text = refused["error"].to_string();
        assert!(text.contains("0002.03"), "{text}");
    }
    let (_, status) = json("migrate status");
    assert_eq!(status["result"]["seq"], 1);
    // A phase without functions runs without the app.
    assert_eq!(json("migrate apply --phase expand").0, 0);
}

/// Writes the second migration as the app with the function records it.
fn write_second_migration(dir: &Path, changes: &Json, transforms: &Json) {
    let folder = dir.join("migrations");
    let read = |name: &str| -> Json {
        serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
    };
    let after = snapshot("integer");
    std::fs::write(dir.join("saved.json"), after.to_string()).unwrap();
    let migration = json!({
        "format": 2, "seq": 2, "name": "numbers",
        "parent": read("0001_start.json")["snapshotDigest"],
        "snapshot": after, "snapshotDigest": linchpin_migrate::digest(&after),
        "changes": changes, "transforms": transforms,
    });
    std::fs::write(folder.join("0002_numbers.json"), migration.to_string()).unwrap();
    let mut index = read("chain.json");
    let entry = json!({
        "seq": 2, "name": "numbers", "file": "0002_numbers.json",
        "digest": linchpin_migrate::digest(&migration),
    });
    index["migrations"].as_array_mut().unwrap().push(entry);
    std::fs::write(folder.join("chain.json"), index.to_string()).unwrap();
}

#[test]
fn a_command_that_needs_an_app_is_refused_without_one() {
    let folder = tempfile::tempdir().unwrap();
    for words in ["migrate plan", "migrate record x", "schema print"] {
        let (exit, text) = run(folder.path(), &format!("{words} --json"));
        let json: Json = serde_json::from_str(&text).expect("one document");
        assert_eq!(
            (exit, &json["exit"], &json["error"]["code"]),
            (2, &json!(2), &json!("usage"))
        );
        assert!(
            json["error"]["message"]
                .as_str()
                .unwrap()
                .contains("--schema FILE"),
            "{json}"
        );
    }
}
