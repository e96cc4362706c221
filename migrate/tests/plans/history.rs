//! Tests of chains that differ from the migrations of a database, and of changed functions.

use linchpin_core::entity::{Kind, TransformDesc};
use linchpin_core::schema::Snapshot;
use linchpin_migrate::{Chain, Exit, Migration, Phase, digest_of};
use serde_json::json;

use crate::support::{Database, Link, chain, chain_with, entity, function, to_text};

on_both_stores!(
    an_edited_function_is_refused_before_anything_runs,
    a_missing_function_is_refused_before_anything_runs,
    expanding_needs_no_function,
    a_database_at_a_baseline_continues,
    a_database_behind_a_baseline_is_refused,
    an_altered_migration_is_refused_with_its_differences,
    an_open_migration_may_be_recorded_again_until_a_step_has_run,
    each_migration_behind_the_head_runs_its_own_function,
    a_draft_continues_with_each_recorded_migration,
    a_draft_equal_to_a_recorded_migration_is_taken_over,
);

pub static REVIEWED: TransformDesc = converting("5f5f");
static EDITED: TransformDesc = converting("6a6a");

const fn converting(body: &'static str) -> TransformDesc {
    function("app::to_text", body, (Kind::Integer, Kind::String), to_text)
}

fn visits(kind: &str) -> Snapshot {
    entity("users", json!({ "visits": { "type": kind } }))
}

/// The second migration changes the type of a field.
fn converted(snapshot: Snapshot) -> Link {
    Link::converted(snapshot, ("users", "visits"), &REVIEWED)
}

/// Applies the first migration and inserts rows.
async fn install_and_fill(database: &Database) -> Chain {
    database.apply_all(&chain(&[visits("integer")])).await;
    database
        .execute("INSERT INTO users (id, visits) VALUES ('1', 3)")
        .await;
    chain_with(&[Link::plain(visits("integer")), converted(visits("string"))])
}

async fn an_edited_function_is_refused_before_anything_runs(database: &Database) {
    let two = install_and_fill(database).await;
    let refusal = database
        .with(&[&EDITED])
        .plan(&two)
        .await
        .expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("transform_changed", Exit::Planning)
    );
    assert_eq!(refusal.facts[0].at.as_deref(), Some("src/users.rs:7"));
    let refusal = database
        .with(&[&EDITED])
        .apply(&two, None)
        .await
        .expect_err("refused");
    assert_eq!(refusal.code, "transform_changed");
    assert!(!database.ledger().await.migrations.contains_key(&2));
    // After half of the migration, the rest must use the same function.
    let reviewed = database.with(&[&REVIEWED]);
    reviewed
        .apply(&two, Some(Phase::Expand))
        .await
        .expect("expanded");
    reviewed
        .apply(&two, Some(Phase::Backfill))
        .await
        .expect("filled");
    let refusal = database
        .with(&[&EDITED])
        .apply(&two, None)
        .await
        .expect_err("refused");
    assert_eq!(refusal.code, "transform_changed");
    reviewed.apply_all(&two).await;
    assert_eq!(
        database.texts("SELECT visits FROM users").await,
        ["3 visits"]
    );
    // After the migration, the function may be changed or removed.
    database.with(&[&EDITED]).plan(&two).await.expect("a plan");
}

async fn a_missing_function_is_refused_before_anything_runs(database: &Database) {
    let two = install_and_fill(database).await;
    let refusal = database.apply(&two, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("transform_missing", Exit::Planning)
    );
    assert!(!database.ledger().await.migrations.contains_key(&2));
}

async fn expanding_needs_no_function(database: &Database) {
    let two = install_and_fill(database).await;
    database
        .apply(&two, Some(Phase::Expand))
        .await
        .expect("expanded");
}

/// The chain that begins with migration 2 as its baseline.
fn squashed(chain: &Chain) -> Chain {
    let mut migrations: Vec<Migration> = chain.migrations()[1..].to_vec();
    let first = &mut migrations[0];
    "baseline".clone_into(&mut first.name);
    first.parent = None;
    Chain::new(migrations).expect("a chain")
}

fn three() -> Chain {
    let with = |more: &[&str]| {
        let fields = more.iter().map(|name| {
            (
                (*name).to_owned(),
                json!({ "type": "string", "optional": true }),
            )
        });
        entity("users", fields.collect::<serde_json::Map<_, _>>().into())
    };
    chain(&[with(&["a"]), with(&["a", "b"]), with(&["a", "b", "c"])])
}

async fn a_database_at_a_baseline_continues(database: &Database) {
    let three = three();
    let two = Chain::new(three.migrations()[..2].to_vec()).expect("a chain");
    database
        .apply_all(&Chain::new(two.migrations()[..1].to_vec()).expect("a chain"))
        .await;
    database.apply_all(&two).await;
    database.apply_all(&squashed(&three)).await;
    assert_eq!(database.ledger().await.seq, 3);
    // A new database begins with the baseline.
    let new_database = if database.is_sqlite() {
        Database::sqlite()
    } else {
        Database::postgres()
    };
    new_database.apply_all(&squashed(&three)).await;
}

async fn a_database_behind_a_baseline_is_refused(database: &Database) {
    let three = three();
    database
        .apply_all(&Chain::new(three.migrations()[..1].to_vec()).expect("a chain"))
        .await;
    let refusal = database
        .apply(&squashed(&three), None)
        .await
        .expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("history_missing", Exit::Data)
    );
    assert!(refusal.message.contains("baseline 2"), "{refusal}");
}

async fn an_altered_migration_is_refused_with_its_differences(database: &Database) {
    let three = three();
    database.apply_all(&three).await;
    let mut migrations = three.migrations().to_vec();
    let fields = &mut migrations[2]
        .snapshot
        .entities
        .get_mut("users")
        .expect("users")
        .fields;
    let kind = &mut fields.get_mut("c").expect("a field").kind;
    "integer".clone_into(kind);
    migrations[2].snapshot_digest = digest_of(&migrations[2].snapshot);
    let altered = Chain::new(migrations).expect("a chain");
    let refusal = database.apply(&altered, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("history_altered", Exit::Data)
    );
    let facts: Vec<&str> = refusal
        .facts
        .iter()
        .map(|fact| fact.text.as_str())
        .collect();
    assert_eq!(
        facts,
        [
            "differs: $.snapshot.entities.users.fields.c.type",
            "differs: $.snapshotDigest"
        ]
    );
}

async fn an_open_migration_may_be_recorded_again_until_a_step_has_run(database: &Database) {
    let text = || json!({ "type": "string" });
    let renamed = |name: &str, more: serde_json::Value| {
        let mut fields = json!({ name: { "type": "string", "formerNames": ["name"] } });
        for (key, value) in more.as_object().expect("an object") {
            fields[key] = value.clone();
        }
        entity("users", fields)
    };
    let first = entity("users", json!({ "name": text() }));
    database
        .apply_all(&chain(std::slice::from_ref(&first)))
        .await;
    // The run waits for an older instance before its only step.
    database.lease("web-1", 1).await;
    let title = chain(&[first.clone(), renamed("title", json!({}))]);
    let refusal = database.apply(&title, None).await.expect_err("refused");
    assert_eq!(refusal.code, "instances_alive");
    let more = json!({ "more": { "type": "string", "optional": true } });
    let again = chain(&[first.clone(), renamed("headline", more)]);
    database
        .apply(&again, Some(Phase::Expand))
        .await
        .expect("recorded again");
    // Its first step has run.
    let refusal = database.plan(&title).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("migration_started", Exit::Planning)
    );
    database.stop_instances().await;
    database.apply_all(&again).await;
}

async fn each_migration_behind_the_head_runs_its_own_function(database: &Database) {
    let first = install_and_fill(database).await;
    let mut links = vec![Link::plain(visits("integer")), converted(visits("string"))];
    // A later migration renames the converted field.
    let renamed = entity(
        "users",
        json!({ "count": { "type": "string", "formerNames": ["visits"] } }),
    );
    links.push(Link::plain(renamed));
    let three = chain_with(&links);
    assert_eq!(first.seq(), 2);
    database.with(&[&REVIEWED]).apply_all(&three).await;
    assert_eq!(
        database.texts("SELECT count FROM users").await,
        ["3 visits"]
    );
}

/// Changes the database like a development start that adds the field `note` before it is recorded.
async fn apply_draft(database: &Database, snapshot: &Snapshot) {
    let column = if database.is_sqlite() {
        "TEXT"
    } else {
        "TEXT COLLATE \"C\""
    };
    database
        .execute(&format!("ALTER TABLE users ADD COLUMN note {column}"))
        .await;
    let document = linchpin_migrate::canonical(&serde_json::to_value(snapshot).expect("JSON"));
    let digest = digest_of(snapshot);
    database
        .execute(&format!(
            "UPDATE linchpin_schema SET snapshot = '{document}', digest = '{digest}'"
        ))
        .await;
}

fn with_note(kind: &str) -> Snapshot {
    let note = json!({ "type": "string", "optional": true });
    entity("users", json!({ "visits": { "type": kind }, "note": note }))
}

async fn a_draft_continues_with_each_recorded_migration(database: &Database) {
    install_and_fill(database).await;
    apply_draft(database, &with_note("integer")).await;
    database.execute("UPDATE users SET note = 'x'").await;
    // The next migration converts a field and records the draft field. A later one renames it.
    let note = json!({ "type": "string", "optional": true, "formerNames": ["note"] });
    let remark = json!({ "visits": { "type": "string" }, "remark": note });
    let three = chain_with(&[
        Link::plain(visits("integer")),
        converted(with_note("string")),
        Link::plain(entity("users", remark)),
    ]);
    database.with(&[&REVIEWED]).apply_all(&three).await;
    assert_eq!(
        database.texts("SELECT visits || remark FROM users").await,
        ["3 visitsx"]
    );
}

async fn a_draft_equal_to_a_recorded_migration_is_taken_over(database: &Database) {
    install_and_fill(database).await;
    apply_draft(database, &with_note("integer")).await;
    let two = chain(&[visits("integer"), with_note("integer")]);
    let done = database.apply_all(&two).await;
    assert_eq!((done.steps, done.seq), (Vec::new(), 2));
    assert_eq!(database.ledger().await.seq, 2);
}
