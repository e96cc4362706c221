//! The digest of a plan: it approves one plan for one database, while its number of rows stays
//! similar.

use linchpin_core::schema::Snapshot;
use linchpin_migrate::{Applied, Chain, Exit, Options, Plan, Refusal};
use serde_json::json;

use crate::support::{Database, chain, entity, entity_with, index, options, together};

on_both_stores!(
    a_digest_approves_no_other_database,
    a_digest_approves_no_copy_of_its_database,
    a_digest_holds_within_a_size_class,
    words_of_sql_in_names_and_defaults_change_no_phase_and_no_risk,
);

fn first() -> Snapshot {
    let fields = json!({ "name": { "type": "string" }, "age": { "type": "integer" } });
    entity("users", fields)
}

/// The chain that drops the column `age`.
fn dropped() -> Chain {
    let second = entity("users", json!({ "name": { "type": "string" } }));
    chain(&[first(), second])
}

/// Inserts rows whose keys begin with `from`.
async fn insert(database: &Database, from: u32, rows: u32) {
    let rows: Vec<String> = (from..from + rows)
        .map(|n| format!("('{n}', 'name', {n})"))
        .collect();
    let sql = format!(
        "INSERT INTO users (id, name, age) VALUES {}",
        rows.join(", ")
    );
    database.execute(&sql).await;
}

async fn filled(database: &Database, rows: u32) {
    database.done(&chain(&[first()])).await;
    insert(database, 0, rows).await;
}

/// Applies the second migration with a digest.
async fn apply(database: &Database, digest: Option<&String>) -> Result<Applied, Refusal> {
    let options = Options {
        approve: digest.cloned(),
        ..options()
    };
    database.run(&dropped(), &options).await
}

/// Checks that a run with this digest is refused before its first step.
async fn is_refused(database: &Database, digest: Option<&String>) {
    let refusal = apply(database, digest).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("approval_mismatch", Exit::Approval)
    );
    assert!(refusal.text().contains("0002.01"), "{}", refusal.text());
    let ledger = database.ledger().await;
    assert!(!ledger.migrations.contains_key(&2));
    let ages = "SELECT count(*) FROM users WHERE age IS NOT NULL";
    assert_eq!(
        database.number(ages).await,
        database.number("SELECT count(*) FROM users").await
    );
}

async fn a_digest_approves_no_other_database(database: &Database) {
    let other = database.another();
    for one in [database, &other] {
        filled(one, 3).await;
    }
    let (own, others) = (
        database.digest(&dropped()).await,
        other.digest(&dropped()).await,
    );
    assert!(own.is_some() && own != others, "{own:?}");
    is_refused(&other, own.as_ref()).await;
    is_refused(database, others.as_ref()).await;
    apply(database, own.as_ref()).await.expect("approved");
    apply(&other, others.as_ref()).await.expect("approved");
}

/// A restored copy has the id of its source in the ledger.
async fn a_digest_approves_no_copy_of_its_database(database: &Database) {
    filled(database, 3).await;
    let copy = database.copy().await;
    assert_eq!(
        database.ledger().await.database_id,
        copy.ledger().await.database_id
    );
    let digest = database.digest(&dropped()).await;
    is_refused(&copy, digest.as_ref()).await;
    apply(database, digest.as_ref()).await.expect("approved");
}

async fn a_digest_holds_within_a_size_class(database: &Database) {
    filled(database, 500).await;
    let digest = database.digest(&dropped()).await;
    insert(database, 500, 10).await;
    assert_eq!(database.digest(&dropped()).await, digest);
    insert(database, 510, 390).await;
    assert_eq!(database.digest(&dropped()).await, digest);
    // The table grows beyond 1,000 rows, and shrinks again.
    insert(database, 900, 200).await;
    is_refused(database, digest.as_ref()).await;
    database.execute("DELETE FROM users WHERE age >= 900").await;
    apply(database, digest.as_ref()).await.expect("approved");
}

/// The entity with a field that is added, one that is dropped and one that becomes required, with
/// these names and this default.
fn changed(table: &str, [added, gone, filled]: [&str; 3], default: &str) -> Chain {
    let kept = |optional: bool, default: serde_json::Value| json!({ "type": "string", "optional": optional, "default": default });
    let literal = json!({ "literal": default });
    let indexes = |name: &str| {
        let mut index = index("ix", table, name);
        index["name"] = json!(format!("ix_{table}_by"));
        json!({ "indexes": [index] })
    };
    let before = json!({
        gone: { "type": "string", "optional": true },
        filled: kept(true, json!(null)),
    });
    let after = json!({
        added: kept(false, literal.clone()),
        filled: kept(false, literal),
    });
    let victim = || entity("victims", json!({ "name": { "type": "string" } }));
    chain(&[
        together([entity_with(table, before, indexes(gone)), victim()]),
        together([entity_with(table, after, indexes(filled)), victim()]),
    ])
}

/// The facts that an approval depends on: the phase, the kind, the risk and the lock of each step.
fn decided(database: &Database, plan: &Plan) -> Vec<String> {
    let document = plan.document(database.store.dialect());
    let steps = document["migrations"][0]["steps"].as_array();
    let facts = ["phase", "kind", "risk", "lock", "approval", "transactional"];
    let step = |step: &serde_json::Value| facts.map(|fact| step[fact].to_string()).join(" ");
    steps.expect("steps").iter().map(step).collect()
}

async fn words_of_sql_in_names_and_defaults_change_no_phase_and_no_risk(database: &Database) {
    let cases = [
        ("users", ["added", "gone", "filled"], "plain"),
        // Keywords of SQL statements.
        (
            "Update",
            ["delete", "drop table", "alter"],
            "DROP TABLE \"victims\"",
        ),
        // SQL comments, and the ends of string literals and statements.
        (
            "-- safe",
            ["/* add */", "x\"; DROP TABLE victims; --", "it's"],
            "'); DROP TABLE victims; -- /* \\' $1",
        ),
    ];
    let mut expected = None;
    for (table, names, default) in cases {
        let database = database.another();
        let both = changed(table, names, default);
        let first = both.get(1).expect("a migration").snapshot.clone();
        database.done(&chain(&[first])).await;
        let quoted = database.store.dialect().quote(table);
        database
            .execute(&format!("INSERT INTO {quoted} (id) VALUES ('1')"))
            .await;
        database
            .execute("INSERT INTO victims (id, name) VALUES ('1', 'kept')")
            .await;
        let plan = database.plan(&both).await.expect("a plan");
        let found = decided(&database, &plan);
        assert_eq!(found, *expected.get_or_insert(found.clone()), "{table}");

        database.done(&both).await;
        let column = |name: &str| database.store.dialect().quote(name);
        let values = format!(
            "SELECT {} || {} FROM {quoted}",
            column(names[0]),
            column(names[2])
        );
        assert_eq!(database.texts(&values).await, [default.repeat(2)]);
        assert_eq!(database.texts("SELECT name FROM victims").await, ["kept"]);
    }
    assert!(expected.expect("plans").len() > 3);
}
