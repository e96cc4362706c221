//! Tests of the approval digest. It approves one plan for one database, as long as the size classes
//! of the tables stay the same.

use linchpin_core::schema::Snapshot;
use linchpin_migrate::{Applied, Chain, Exit, Options, Plan, Refusal};
use serde_json::json;

use crate::support::{Database, chain, entity, entity_with, index, options, together};

on_both_stores!(
    a_digest_of_another_database_is_refused,
    a_digest_of_the_source_of_a_copy_is_refused,
    a_digest_is_valid_within_a_size_class,
    sql_in_names_and_defaults_changes_no_phase_and_no_risk,
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

/// Inserts rows. Their keys are consecutive numbers, the first is `from`.
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

/// Applies the first migration and inserts rows.
async fn install_and_fill(database: &Database, rows: u32) {
    database.apply_all(&chain(&[first()])).await;
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

/// Asserts that a run with this digest is refused before its first step.
async fn assert_refused(database: &Database, digest: Option<&String>) {
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

async fn a_digest_of_another_database_is_refused(database: &Database) {
    let other = database.another();
    for one in [database, &other] {
        install_and_fill(one, 3).await;
    }
    let (own, others) = (
        database.digest(&dropped()).await,
        other.digest(&dropped()).await,
    );
    assert!(own.is_some() && own != others, "{own:?}");
    assert_refused(&other, own.as_ref()).await;
    assert_refused(database, others.as_ref()).await;
    apply(database, own.as_ref()).await.expect("approved");
    apply(&other, others.as_ref()).await.expect("approved");
}

/// A restored copy has the id of its source in the ledger.
async fn a_digest_of_the_source_of_a_copy_is_refused(database: &Database) {
    install_and_fill(database, 3).await;
    let copy = database.copy().await;
    assert_eq!(
        database.ledger().await.database_id,
        copy.ledger().await.database_id
    );
    let digest = database.digest(&dropped()).await;
    assert_refused(&copy, digest.as_ref()).await;
    apply(database, digest.as_ref()).await.expect("approved");
}

async fn a_digest_is_valid_within_a_size_class(database: &Database) {
    install_and_fill(database, 500).await;
    let digest = database.digest(&dropped()).await;
    insert(database, 500, 10).await;
    assert_eq!(database.digest(&dropped()).await, digest);
    insert(database, 510, 390).await;
    assert_eq!(database.digest(&dropped()).await, digest);
    // The table grows beyond 1,000 rows, and shrinks again.
    insert(database, 900, 200).await;
    assert_refused(database, digest.as_ref()).await;
    database.execute("DELETE FROM users WHERE age >= 900").await;
    apply(database, digest.as_ref()).await.expect("approved");
}

/// A chain of two migrations. The second one adds the field `added`, drops the field `gone`, and
/// makes the field `filled` required. `default` is the default of the added and the filled field.
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

/// The phase, the kind, the risk, the lock, `approval` and `transactional` of each step. An
/// approval depends on them.
fn approval_inputs(database: &Database, plan: &Plan) -> Vec<String> {
    let document = plan.document(database.store.dialect());
    let steps = document["migrations"][0]["steps"].as_array();
    let facts = ["phase", "kind", "risk", "lock", "approval", "transactional"];
    let step = |step: &serde_json::Value| facts.map(|fact| step[fact].to_string()).join(" ");
    steps.expect("steps").iter().map(step).collect()
}

async fn sql_in_names_and_defaults_changes_no_phase_and_no_risk(database: &Database) {
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
        database.apply_all(&chain(&[first])).await;
        let quoted = database.store.dialect().quote(table);
        database
            .execute(&format!("INSERT INTO {quoted} (id) VALUES ('1')"))
            .await;
        database
            .execute("INSERT INTO victims (id, name) VALUES ('1', 'kept')")
            .await;
        let plan = database.plan(&both).await.expect("a plan");
        let found = approval_inputs(&database, &plan);
        assert_eq!(found, *expected.get_or_insert(found.clone()), "{table}");

        database.apply_all(&both).await;
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
