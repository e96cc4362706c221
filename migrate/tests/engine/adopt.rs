//! Tests of adoption: databases that have tables but no ledger.

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Snapshot};
use linchpin_migrate::{Applied, Exit, Options, Refusal, adopt, apply};
use serde_json::json;

use crate::support::{App, Db, index, snapshot};

crate::cases!(adopt:
    equal_tables_are_adopted_without_a_change,
    a_differing_column_is_refused_and_nothing_is_written,
    tables_of_an_earlier_release_are_adopted,
    a_database_behind_the_head_is_adopted_at_its_own_migration,
    a_table_under_its_former_name_is_not_ignored,
    a_database_without_tables_is_not_adopted,
    unrecorded_declarations_are_not_adopted,
);

fn first() -> Snapshot {
    snapshot(&[(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "status": { "type": "enum", "values": ["active", "left"] },
            "visits": { "type": "integer", "default": { "literal": 0 } },
            "open": { "type": "boolean", "default": { "literal": true } },
        }),
        json!({ "indexes": [index("ix_users_name", &["name"])] }),
    )])
}

fn second() -> Snapshot {
    snapshot(&[(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "status": { "type": "enum", "values": ["active", "left"] },
            "visits": { "type": "integer", "default": { "literal": 0 } },
            "open": { "type": "boolean", "default": { "literal": true } },
            "note": { "type": "string", "optional": true },
        }),
        json!({ "indexes": [index("ix_users_name", &["name"])] }),
    )])
}

const INDEX: &str = "CREATE INDEX ix_users_name ON users (name)";
const INDEX_POSTGRES: &str = "CREATE INDEX ix_users_name ON users (name ASC NULLS FIRST)";

/// Statements that create the tables of [`first`], with the same result as a migration.
fn tables_of_first(db: &Db) -> [&'static str; 3] {
    let (table, index) = if db.is_sqlite() {
        let table = "CREATE TABLE users (id TEXT NOT NULL PRIMARY KEY, name TEXT, \
            status TEXT NOT NULL CONSTRAINT ck_users_status CHECK (status IN ('left', 'active')), \
            visits INTEGER NOT NULL DEFAULT 0, \
            open INTEGER NOT NULL DEFAULT 1 CONSTRAINT ck_users_open CHECK (open IN (0, 1))) STRICT";
        (table, INDEX)
    } else {
        let table = "CREATE TABLE users (id TEXT COLLATE \"C\" NOT NULL, name TEXT COLLATE \"C\", \
            status TEXT COLLATE \"C\" NOT NULL CONSTRAINT ck_users_status \
            CHECK (status IN ('left', 'active')), visits BIGINT NOT NULL DEFAULT 0, \
            open BOOLEAN NOT NULL DEFAULT true, CONSTRAINT pk_users PRIMARY KEY (id))";
        (table, INDEX_POSTGRES)
    };
    let row = "INSERT INTO users (id, status, visits) VALUES ('a', 'left', 7)";
    [table, index, row]
}

/// Statements that create the tables of [`first`] as a release without migrations did: checks have
/// no names, and there are no defaults.
fn tables_of_an_earlier_release(db: &Db) -> [&'static str; 3] {
    let (table, index) = if db.is_sqlite() {
        let table = "CREATE TABLE \"users\" (\n  \"id\" TEXT NOT NULL PRIMARY KEY,\n  \
            \"name\" TEXT,\n  \"open\" INTEGER NOT NULL CHECK (\"open\" IN (0, 1)),\n  \
            \"status\" TEXT NOT NULL CHECK (\"status\" = 'active' OR \"status\" = 'left'),\n  \
            \"visits\" INTEGER NOT NULL\n) STRICT";
        (table, INDEX)
    } else {
        let table = "CREATE TABLE \"users\" (\n  \"id\" TEXT COLLATE \"C\" NOT NULL,\n  \
            \"name\" TEXT COLLATE \"C\",\n  \"open\" BOOLEAN NOT NULL,\n  \
            \"status\" TEXT COLLATE \"C\" NOT NULL CHECK (\"status\" IN ('active', 'left')),\n  \
            \"visits\" BIGINT NOT NULL,\n  PRIMARY KEY (\"id\")\n)";
        (table, INDEX_POSTGRES)
    };
    let row = "INSERT INTO users (id, name, status, visits, open) \
         VALUES ('a', 'Ada', 'left', 7, (1 = 1))";
    [table, index, row]
}

async fn run(db: &Db, app: &App, approve: Option<String>) -> Result<Applied, Refusal> {
    let options = Options {
        approve,
        ..Options::default()
    };
    adopt(&*db.store, app.chain_and_declared(), &options, &mut |_| ()).await
}

async fn equal_tables_are_adopted_without_a_change(db: Db) {
    db.execute(&tables_of_first(&db)).await;
    let app = App::new(&[first()]);
    let refusal = apply(
        &*db.store,
        app.chain_and_declared(),
        &Options::default(),
        &mut |_| (),
    )
    .await
    .expect_err("there is no ledger");
    assert_eq!((refusal.code, refusal.exit), ("not_adopted", Exit::Data));
    // A plan describes the adoption and does not change the database.
    let plan = db.command(&app, "migrate plan").await.expect("a plan");
    assert!(plan.text.contains("migrate adopt"), "{}", plan.text);
    assert_eq!(plan.result["approvalDigest"], json!(null));
    assert_eq!(db.tables().await, ["users"]);

    let outcome = db.command(&app, "migrate adopt").await.expect("adopted");
    assert_eq!(outcome.text, "migration 1 is installed");
    // The tables of the framework are new, and those of the app are unchanged.
    let own = [
        "linchpin_consumers",
        "linchpin_instances",
        "linchpin_migration_steps",
        "linchpin_migrations",
        "linchpin_outbox",
        "linchpin_parked",
        "linchpin_schema",
        "users",
    ];
    assert_eq!(db.tables().await, own);
    let ledger = db.ledger().await.expect("a ledger");
    assert_eq!((ledger.seq, ledger.min_seq, ledger.max_seq), (1, 1, 1));
    assert_eq!(ledger.migrations[&1].state.name(), "done");
    assert_eq!(db.number("SELECT visits FROM users").await, 7);
    // After the adoption, the database migrates like any other, and is not adopted again.
    let done = run(&db, &app, None).await.expect("nothing to do");
    assert_eq!((done.seq, done.steps.len()), (1, 0));
    let app = App::new(&[first(), second()]);
    db.apply(&app, linchpin_migrate::Phase::Contract)
        .await
        .expect("applied");
    db.assert_at_head(&app).await;
}

async fn a_differing_column_is_refused_and_nothing_is_written(db: Db) {
    let [table, index, _] = tables_of_first(&db);
    let table = table.replace("visits INTEGER NOT NULL DEFAULT 0", "visits TEXT");
    let table = table.replace("visits BIGINT NOT NULL DEFAULT 0", "visits TEXT");
    db.execute(&[&table, index]).await;
    let app = App::new(&[first()]);
    let refusal = run(&db, &app, None).await.expect_err("a difference");
    assert_eq!((refusal.code, refusal.exit), ("schema_differs", Exit::Data));
    let facts: Vec<&str> = refusal.facts.iter().map(|f| f.text.as_str()).collect();
    let kind = if db.is_sqlite() { "INTEGER" } else { "bigint" };
    let wanted = format!("type_differs: table `users` `visits`: expected {kind}, found ");
    assert!(facts.iter().any(|f| f.starts_with(&wanted)), "{facts:?}");
    // Every difference is listed.
    let wanted = "nullability_differs: table `users` `visits`";
    assert!(facts.iter().any(|f| f.starts_with(wanted)), "{facts:?}");
    assert_eq!(db.tables().await, ["users"]);
}

async fn tables_of_an_earlier_release_are_adopted(db: Db) {
    db.execute(&tables_of_an_earlier_release(&db)).await;
    let app = App::new(&[first()]);
    let plan = db.command(&app, "migrate plan").await.expect("a plan");
    let digest = plan.result["approvalDigest"].as_str().map(str::to_owned);
    // SQLite rebuilds the table, which needs an approval.
    assert_eq!(digest.is_some(), db.is_sqlite(), "{}", plan.text);
    if db.is_sqlite() {
        let refusal = run(&db, &app, None).await.expect_err("no approval");
        assert_eq!(refusal.code, "approval_required");
        let refusal = run(&db, &app, Some("0".repeat(64))).await;
        assert_eq!(refusal.expect_err("wrong").code, "approval_mismatch");
        assert_eq!(db.tables().await, ["users"]);
    }
    run(&db, &app, digest).await.expect("adopted");
    db.assert_at_head(&app).await;
    let rows = db
        .query(
            "SELECT id, name, status, visits, open FROM users",
            &[
                ColumnKind::String,
                ColumnKind::String,
                ColumnKind::String,
                ColumnKind::Integer,
                ColumnKind::Boolean,
            ],
        )
        .await;
    let text = |text: &str| Value::Text(text.to_owned());
    let row = [
        text("a"),
        text("Ada"),
        text("left"),
        Value::Int(7),
        Value::Bool(true),
    ];
    assert_eq!(rows, [row]);
    if let Some(folder) = &db.folder {
        let copy = folder.path().join("app.db.before-1");
        assert!(copy.is_file(), "a copy is made before the rebuild");
    }
    let remarks = db.command(&app, "migrate verify").await.expect("verified");
    assert_eq!(remarks.exit, Exit::Done, "{}", remarks.text);
}

async fn a_database_behind_the_head_is_adopted_at_its_own_migration(db: Db) {
    db.execute(&tables_of_first(&db)).await;
    let app = App::new(&[first(), second()]);
    let done = run(&db, &app, None).await.expect("adopted");
    assert_eq!(done.seq, 1);
    let done = db.apply(&app, linchpin_migrate::Phase::Contract).await;
    assert_eq!(done.expect("applied").seq, 2);
    db.assert_at_head(&app).await;
}

async fn a_table_under_its_former_name_is_not_ignored(db: Db) {
    db.execute(&tables_of_first(&db)).await;
    let mut renamed = first();
    let mut entity = renamed.entities.remove("users").expect("an entity");
    "people".clone_into(&mut entity.storage_name);
    entity.former_names = vec!["users".to_owned()];
    "ix_people_name".clone_into(&mut entity.indexes[0].name);
    renamed.entities.insert("people".to_owned(), entity);
    let app = App::new(&[first(), renamed]);
    let refusal = apply(
        &*db.store,
        app.chain_and_declared(),
        &Options::default(),
        &mut |_| (),
    )
    .await
    .expect_err("an empty table beside the filled one would look like lost records");
    assert_eq!(refusal.code, "not_adopted");
    assert_eq!(run(&db, &app, None).await.expect("adopted").seq, 1);
    let done = db.apply(&app, linchpin_migrate::Phase::Contract).await;
    assert_eq!(done.expect("applied").seq, 2);
    assert_eq!(db.number("SELECT visits FROM people").await, 7);
}

async fn a_database_without_tables_is_not_adopted(db: Db) {
    let refusal = run(&db, &App::new(&[first()]), None).await;
    let refusal = refusal.expect_err("there is nothing to adopt");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("nothing_to_adopt", Exit::Data)
    );
    assert_eq!(db.tables().await, [] as [&str; 0]);
}

async fn unrecorded_declarations_are_not_adopted(db: Db) {
    db.execute(&tables_of_first(&db)).await;
    let mut app = App::new(&[first()]);
    app.declared.snapshot = second();
    let refusal = run(&db, &app, None).await.expect_err("unrecorded");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("unrecorded_changes", Exit::Planning)
    );
    assert_eq!(db.tables().await, ["users"]);
}
