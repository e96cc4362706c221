//! Tests that the entities of linchpin-auth migrate with those of the app.
//!
//! The folder `auth` has two recorded migrations of older versions of its entities. They are never
//! recorded again. The test fails after a change of the entities that cannot migrate such a
//! database.

use std::collections::BTreeMap;

use example_support::client::Client;
use linchpin::Value;
use linchpin::schema::Snapshot;
use serde_json::{Value as Json, json};

use crate::rows::{Database, Record};
use crate::sqlite;
use crate::version::Version;
use example_support::markdown::root;

/// The version of the app that serves. Its entities, except those of linchpin-auth, are the same as
/// in the recorded migrations.
const VERSION: usize = 10;
/// An entity without records in older databases.
const NEW_ENTITY: &str = "auth_provider_links";
/// The renamed fields: the entity, the older name and the present name.
const RENAMED_FIELDS: [(&str, &str, &str); 2] = [
    ("auth_sessions", "seed", "family_seed"),
    ("auth_users", "verified_at", "proved_at"),
];

/// Migrates a database of the first version to the present version in one run, through the second
/// version. The accounts of the database can then sign in.
pub fn over_two_releases(url: &str) {
    let folder = root().join("examples/tasks/tests/history/auth");
    let old = snapshot(&folder.join("0001_older_release.json"));
    let first = Version::from_folder(VERSION, (&folder, 1), url);
    let present = Version::from_folder(VERSION, (&folder, 2), url);
    present.run_to_end("record present_release");
    let head = snapshot(&present.migrations().join("0003_present_release.json"));
    let database = Database::new(url);
    database.install(&first.migrations());

    // The records of a registered account in the older version, and one more record in each table.
    let (email, password) = ("alice@example.com", "violet-otter-91-lamp");
    let account = json!({ "email": email, "password": password });
    for (entity, records) in records_of_registration(&account) {
        for record in &records {
            if old.entities.contains_key(&entity) {
                database.insert(&old, &entity, &to_first_version(&entity, record.clone()));
            }
        }
    }
    database.fill(&old, &["auth_data_key_uses"]);
    let before = records(&database, &old);
    assert!(before["auth_users"].len() == 2 && before["auth_sessions"].len() == 2);

    present.assert_not_serving();
    let plan = present.run_to_end("plan");
    let migrations = plan["migrations"].as_array().expect("a list");
    let numbers: Vec<&Json> = migrations
        .iter()
        .map(|migration| &migration["seq"])
        .collect();
    assert_eq!(numbers, [2, 3], "{plan:#}");
    present.assert_error("apply", 4, "approval_required");
    present.assert_not_serving();
    assert_eq!(records(&database, &old), before);

    present.run_to_end(&format!("apply{}", present.approval()));
    present.run_to_end("verify");
    present.run_to_end("plan --check");
    let after = records(&database, &head);
    for (entity, records) in &after {
        let expected = before.get(entity).cloned().unwrap_or_default();
        let expected: Vec<Record> = expected
            .into_iter()
            .map(|record| expected_record(entity, record, &head))
            .collect();
        assert_eq!(records, &expected, "{entity}");
    }

    let server = present.serve();
    let client = Client::anonymous(&server);
    let wrong = json!({ "email": email, "password": "amber-walrus-17-dune" });
    assert_eq!(client.send("POST", "/auth/login", wrong).status, 401);
    let login = client.send("POST", "/auth/login", account.clone());
    assert_eq!(login.status, 200, "{login:?}");
    let alice = client.bearer(login.body["token"].as_str().expect("a token"));
    let sessions = alice.ask("GET", "/auth/sessions", "");
    assert_eq!(sessions.status, 200, "{sessions:?}");
    // The session of the older binary is still valid.
    assert_eq!(
        sessions.body["sessions"].as_array().map(Vec::len),
        Some(2),
        "{sessions:?}"
    );
    let again = client.send("POST", "/auth/register", account);
    assert_eq!(again.status, 409, "{again:?}");
    server.stop();
}

fn snapshot(file: &std::path::Path) -> Snapshot {
    let text = std::fs::read_to_string(file).expect("a file");
    let migration: Json = serde_json::from_str(&text).expect("JSON");
    serde_json::from_value(migration["snapshot"].clone()).expect("a snapshot")
}

/// All records that linchpin-auth writes when an account registers, by entity, in the present
/// version.
fn records_of_registration(account: &Json) -> BTreeMap<String, Vec<Record>> {
    let folder = tempfile::tempdir().expect("a folder");
    let url = sqlite(&folder);
    let version = Version::new(VERSION, &url);
    version.run_to_end("apply");
    let server = version.serve();
    let done = Client::anonymous(&server).send("POST", "/auth/register", account.clone());
    assert_eq!(done.status, 201, "{done:?}");
    server.stop();
    let file = crate::recorded().join(crate::file(VERSION));
    let mut all = records(&Database::new(&url), &snapshot(&file));
    all.remove("board_tasks");
    all
}

fn records(database: &Database, snapshot: &Snapshot) -> BTreeMap<String, Vec<Record>> {
    let entities = snapshot.entities.keys();
    entities
        .map(|entity| (entity.clone(), database.records(snapshot, entity)))
        .collect()
}

/// Converts a record to the first version.
fn to_first_version(entity: &str, mut record: Record) -> Record {
    for (_, older, present) in RENAMED_FIELDS.iter().filter(|renamed| renamed.0 == entity) {
        let value = record.remove(*present).expect("a field");
        record.insert((*older).to_owned(), value);
    }
    if entity == "auth_users" {
        record.insert("phone".to_owned(), Value::Text("+1".to_owned()));
    }
    record
}

/// The expected record in the present version, for a record of the first version.
fn expected_record(entity: &str, mut record: Record, head: &Snapshot) -> Record {
    assert_ne!(entity, NEW_ENTITY);
    for (_, older, present) in RENAMED_FIELDS.iter().filter(|renamed| renamed.0 == entity) {
        let value = record.remove(*older).expect("a field");
        record.insert((*present).to_owned(), value);
    }
    if entity == "auth_users" {
        record.remove("phone");
    }
    for (name, field) in &head.entities[entity].fields {
        // A new field has its default.
        let default = field.default.as_ref().map(|_| Value::Int(0));
        let new = default.unwrap_or(Value::Null);
        record.entry(name.clone()).or_insert(new);
    }
    record
}
