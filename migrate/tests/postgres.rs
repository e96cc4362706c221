//! Migrations of a Postgres database, from an empty one through each kind of change.
#![allow(clippy::expect_used)] // in a test, stopping is the report

use std::time::Duration;

use linchpin_core::entity::{
    Kind, SourceLine, TransformDesc, TransformError, TransformFrom, TransformInput, TransformType,
};
use linchpin_core::schema::{ColumnKind, SchemaSession, SchemaStore, Snapshot, Table};
use linchpin_core::store::Store;
use linchpin_core::{Value, ValueRef};
use linchpin_migrate::{
    Chain, Change, Declared, Exit, Installed, Migration, Options, Phase, Plan, Refusal,
    TransformRecord, apply, digest_of,
};
use linchpin_postgres::{PostgresOptions, PostgresStore};
use serde_json::{Value as Json, json};

#[path = "../../runtime/tests/support/postgres.rs"]
mod server;

/// A snapshot with one entity, `users`.
fn users(fields: Json, indexes: &[&str], uniques: &[&str]) -> Snapshot {
    entity("users", &[], fields, indexes, uniques)
}

/// A snapshot with one entity.
fn entity(
    name: &str,
    former: &[&str],
    fields: Json,
    indexes: &[&str],
    uniques: &[&str],
) -> Snapshot {
    let mut all = serde_json::Map::new();
    let given = fields.as_object().expect("an object").clone();
    let key = json!({ "type": "string", "default": { "kind": "uuid" } });
    for (name, mut field) in given.into_iter().chain([("id".to_owned(), key)]) {
        let facts = field.as_object_mut().expect("an object");
        facts.entry("column").or_insert(json!(name));
        facts.entry("optional").or_insert(json!(false));
        facts.entry("formerNames").or_insert(json!([]));
        all.insert(name, field);
    }
    let index = |prefix: &str, fields: &[&str]| -> Vec<Json> {
        fields
            .iter()
            .map(|field| {
                json!({
                    "name": format!("{prefix}_{name}_{field}"),
                    "keys": [{ "field": field, "desc": false }],
                    "live": false,
                })
            })
            .collect()
    };
    let document = json!({ "format": 2, "entities": { name: {
        "name": "User", "storageName": name, "formerNames": former, "primary": "id", "fields": all,
        "indexes": index("ix", indexes), "uniques": index("ux", uniques),
        "counters": [], "checks": [],
    } } });
    serde_json::from_value(document).expect("a snapshot")
}

fn chain(snapshots: &[Snapshot]) -> Chain {
    let mut parent = None;
    let migrations = snapshots.iter().zip(1..).map(|(snapshot, seq)| {
        let digest = digest_of(snapshot);
        Migration {
            format: Snapshot::FORMAT,
            seq,
            name: format!("change_{seq}"),
            parent: parent.replace(digest.clone()),
            snapshot: snapshot.clone(),
            snapshot_digest: digest,
            changes: if seq == 3 { converted() } else { Vec::new() },
            transforms: if seq == 3 { vec![record()] } else { Vec::new() },
        }
    });
    Chain::new(migrations.collect()).expect("a chain")
}

/// The third migration changes the type of a field.
static TO_TEXT: TransformDesc = TransformDesc {
    name: "app::to_text",
    from: TransformFrom::Value(TransformType {
        kind: Kind::Integer,
        optional: false,
    }),
    to: TransformType {
        kind: Kind::String,
        optional: false,
    },
    body: "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
    reverse: None,
    run: to_text,
    at: SourceLine {
        file: "src/users.rs",
        line: 1,
    },
};

fn to_text(input: TransformInput<'_>) -> Result<Value, TransformError> {
    match input {
        TransformInput::Value(ValueRef::Int(n)) => Ok(Value::Text(format!("{n} visits"))),
        _ => Err("no number".into()),
    }
}

fn converted() -> Vec<Change> {
    vec![Change::ChangeType {
        entity: "people".to_owned(),
        field: "visits".to_owned(),
        transform: TO_TEXT.name.to_owned(),
        reverse: None,
    }]
}

fn record() -> TransformRecord {
    TransformRecord {
        name: TO_TEXT.name.to_owned(),
        from: "integer".to_owned(),
        to: "string".to_owned(),
        body: TO_TEXT.body.to_owned(),
    }
}

fn declared(chain: &Chain) -> Declared {
    Declared {
        own_sql: Vec::new(),
        operations: Vec::new(),
        app: "test".to_owned(),
        entities: Vec::new(),
        system: Vec::new(),
        transforms: vec![&TO_TEXT],
        snapshot: chain.snapshot(),
    }
}

fn open() -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(server::fresh_database())).expect("opened")
}

/// The digest of the present plan.
async fn digest(store: &dyn SchemaStore, chain: &Chain) -> Option<String> {
    let mut session = store.connect().await.expect("a session");
    let installed = Installed::load(&mut *session).await.expect("a ledger");
    Plan::make(store, &mut *session, &installed, (chain, &declared(chain)))
        .await
        .expect("a plan")
        .approval(store.dialect())
}

/// Applies a chain up to a phase, approved.
async fn run(store: &dyn SchemaStore, chain: &Chain, phase: Phase) -> Result<(), Refusal> {
    let options = Options {
        phase: Some(phase).filter(|phase| *phase != Phase::Contract),
        approve: digest(store, chain).await,
        lock_timeout: Duration::from_millis(500),
        index_wait: Duration::from_millis(800),
        ..Options::default()
    };
    apply(store, (chain, &declared(chain)), &options, &mut |_| ())
        .await
        .map(drop)
}

async fn session(store: &dyn SchemaStore) -> Box<dyn SchemaSession> {
    store.connect().await.expect("a session")
}

/// The database has exactly the tables of the last snapshot.
async fn is_at_head(store: &dyn SchemaStore, chain: &Chain) {
    let tables = chain.snapshot().tables();
    let all: Vec<&Table> = tables.values().collect();
    let mut session = session(store).await;
    let found = session.compare(&all).await.expect("compared");
    assert_eq!(found, []);
}

fn first() -> Snapshot {
    users(
        json!({
            "name": { "type": "string" },
            "email": { "type": "string", "optional": true },
            "status": { "type": "enum", "values": ["active", "left"] },
            "visits": { "type": "integer", "default": { "literal": 0 } },
            "gone": { "type": "string", "optional": true },
        }),
        &["name", "email", "gone"],
        &[],
    )
}

fn second() -> Snapshot {
    users(
        json!({
            // Renamed, optional, and with another default.
            "title": { "type": "string", "optional": true, "formerNames": ["name"] },
            "email": { "type": "string", "default": { "literal": "none" } },
            "status": { "type": "enum", "values": ["active", "blocked", "left"] },
            "visits": { "type": "integer", "default": { "literal": 1 } },
            // New: optional, with a constant, and with generated values.
            "level": { "type": "enum", "values": ["high", "low"], "optional": true },
            "rank": { "type": "enum", "values": ["a", "b"], "default": { "literal": "b" } },
            "token": { "type": "string", "default": { "kind": "uuid" } },
            "tags": { "type": "string_array", "default": { "literal": [] } },
        }),
        &["title", "email", "rank"],
        &["token"],
    )
}

fn third() -> Snapshot {
    entity(
        "people",
        &["users"],
        json!({
            "title": { "type": "string", "optional": true, "formerNames": ["name"] },
            "email": { "type": "string", "default": { "literal": "none" } },
            "status": { "type": "enum", "values": ["active", "left"] },
            "visits": { "type": "string" },
            "rank": { "type": "enum", "values": ["a", "b"], "default": { "literal": "b" } },
            "token": { "type": "string", "default": { "kind": "uuid" } },
        }),
        &["title", "email", "visits"],
        &["token"],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_is_applied() {
    let postgres = open();
    let store = Store::schema(&postgres).expect("a schema");
    let (one, two) = (chain(&[first()]), chain(&[first(), second()]));
    run(store, &one, Phase::Contract).await.expect("installed");
    is_at_head(store, &one).await;
    let mut own = session(store).await;
    // The function of the framework is there.
    let folded = own
        .query("SELECT linchpin_fold('ÀB')", &[], &[ColumnKind::String])
        .await
        .expect("folded");
    assert_eq!(folded, [[Value::Text("àb".to_owned())]]);
    own.execute(
        "INSERT INTO users (id, name, email, status, gone) SELECT n::text, 'name ' || n, \
         CASE WHEN n % 2 = 0 THEN 'e' || n END, 'active', 'x' FROM generate_series(1, 2500) AS n",
        &[],
    )
    .await
    .expect("inserted");

    for phase in [Phase::Expand, Phase::Backfill, Phase::Contract] {
        run(store, &two, phase)
            .await
            .unwrap_or_else(|refusal| panic!("{}: {refusal}", phase.name()));
    }
    is_at_head(store, &two).await;
    let sql = "SELECT count(*), count(*) FILTER (WHERE title = 'name ' || id), \
         count(*) FILTER (WHERE email = 'none'), count(DISTINCT token), \
         count(*) FILTER (WHERE rank = 'b' AND level IS NULL AND tags = '{}' AND visits = 0) \
         FROM users";
    let counts = own
        .query(sql, &[], &vec![ColumnKind::Integer; 5])
        .await
        .expect("counted");
    let expected = [2500, 2500, 1250, 2500, 2500].map(Value::Int);
    assert_eq!(counts, [expected]);
    // Again: nothing is left to do.
    run(store, &two, Phase::Contract).await.expect("done");

    let three = chain(&[first(), second(), third()]);
    own.execute("UPDATE users SET status = 'blocked' WHERE id = '7'", &[])
        .await
        .expect("updated");
    let refusal = run(store, &three, Phase::Contract)
        .await
        .expect_err("a value that is not declared any more");
    assert_eq!((refusal.exit, refusal.code), (Exit::Data, "values_found"));
    own.execute("UPDATE users SET status = 'left' WHERE id = '7'", &[])
        .await
        .expect("updated");
    run(store, &three, Phase::Contract)
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    is_at_head(store, &three).await;
    let sql = "SELECT count(*) FROM people WHERE visits = '0 visits' AND title = 'name ' || id";
    let counts = own
        .query(sql, &[], &[ColumnKind::Integer])
        .await
        .expect("counted");
    assert_eq!(counts, [[Value::Int(2500)]]);
    Store::close(&postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_session_is_waited_for_and_then_refused() {
    let postgres = open();
    let store = Store::schema(&postgres).expect("a schema");
    let (one, two) = (chain(&[first()]), chain(&[first(), second()]));
    run(store, &one, Phase::Contract).await.expect("installed");
    // An older transaction: the concurrent build of an index ends after its limit, and is not tried
    // again at once.
    let mut other = session(store).await;
    other
        .begin(linchpin_core::schema::TransactionMode::Read)
        .await
        .expect("begun");
    other
        .query("SELECT count(*) FROM pg_class", &[], &[ColumnKind::Integer])
        .await
        .expect("read");
    let begun = std::time::Instant::now();
    let refusal = run(store, &two, Phase::Expand).await.expect_err("it waits");
    assert_eq!(refusal.exit, Exit::Busy, "{refusal}");
    assert!(refusal.to_string().contains("session "), "{refusal}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    other.rollback().await;
    run(store, &two, Phase::Contract).await.expect("applied");
    is_at_head(store, &two).await;
    Store::close(&postgres).await;
}
