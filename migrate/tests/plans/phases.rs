//! Tests of phases, the window and the states of migrations.

use linchpin_core::schema::Snapshot;
use linchpin_migrate::{Chain, Exit, MigrationState, Options, Phase};
use serde_json::json;

use crate::support::{Database, chain, entity, entity_with, index, options, together};

on_both_stores!(
    phases_run_one_by_one_and_move_the_window,
    a_phase_is_refused_while_an_earlier_one_is_pending,
    a_given_digest_is_compared_even_if_no_step_needs_it,
    another_plan_than_the_saved_one_is_refused,
    a_later_migration_expands_while_an_earlier_one_waits,
    a_later_migration_waits_for_an_earlier_one_on_the_same_field,
    a_contract_waits_for_older_instances,
);

fn first() -> Snapshot {
    entity(
        "users",
        json!({ "name": { "type": "string" }, "age": { "type": "integer", "optional": true } }),
    )
}

/// The second version of the schema: a renamed, a filled and a dropped field.
fn second() -> Snapshot {
    entity_with(
        "users",
        json!({
            "title": { "type": "string", "formerNames": ["name"] },
            "token": { "type": "string", "default": { "kind": "uuid" } },
        }),
        json!({ "indexes": [index("ix", "users", "title")] }),
    )
}

fn two() -> Chain {
    chain(&[first(), second()])
}

/// Applies the first migration and inserts rows.
async fn install_and_fill(database: &Database) {
    database.apply_all(&chain(&[first()])).await;
    for n in 0..5 {
        let sql = format!("INSERT INTO users (id, name, age) VALUES ('{n}', 'n{n}', {n})");
        database.execute(&sql).await;
    }
}

async fn window(database: &Database) -> (u64, u64, MigrationState) {
    let ledger = database.ledger().await;
    let state = ledger.migrations[&2].state;
    (ledger.min_seq, ledger.max_seq, state)
}

async fn phases_run_one_by_one_and_move_the_window(database: &Database) {
    install_and_fill(database).await;
    let two = two();
    let digest = database.digest(&two).await;
    assert_eq!(digest, database.digest(&two).await);
    database
        .apply(&two, Some(Phase::Expand))
        .await
        .expect("expanded");
    let (min, _, state) = window(database).await;
    assert_eq!((min, state), (1, MigrationState::Expanded));
    assert_eq!(digest, database.digest(&two).await);
    let epoch = database.ledger().await.epoch;
    database
        .apply(&two, Some(Phase::Backfill))
        .await
        .expect("filled");
    let (min, _, state) = window(database).await;
    assert_eq!((min, state), (1, MigrationState::Backfilled));
    assert_eq!(digest, database.digest(&two).await);
    let names = database.ledger().await.names;
    assert_eq!(names["users.title"], linchpin_migrate::NameMode::Old);
    database
        .apply(&two, Some(Phase::Contract))
        .await
        .expect("contracted");
    assert_eq!(window(database).await, (2, 2, MigrationState::Done));
    let ledger = database.ledger().await;
    assert!(ledger.names.is_empty());
    // One epoch for the changed names, and one for the end of the migration.
    assert!(ledger.epoch > epoch + 1);
    assert_eq!(ledger.migrations[&2].approval, digest);
    database.assert_at_head(&two).await;
    let again = database.apply(&two, None).await.expect("nothing");
    assert_eq!(again.steps, Vec::<String>::new());
}

async fn a_phase_is_refused_while_an_earlier_one_is_pending(database: &Database) {
    install_and_fill(database).await;
    let two = two();
    for phase in [Phase::Contract, Phase::Backfill] {
        let refusal = database
            .apply(&two, Some(phase))
            .await
            .expect_err("refused");
        assert_eq!(
            (refusal.code, refusal.exit),
            ("phase_order", Exit::Planning)
        );
        assert!(
            refusal.facts[0].text.contains("0002.01 expand"),
            "{:?}",
            refusal.facts
        );
    }
    // Nothing has started.
    assert!(!database.ledger().await.migrations.contains_key(&2));
}

async fn a_given_digest_is_compared_even_if_no_step_needs_it(database: &Database) {
    install_and_fill(database).await;
    let wrong = Options {
        phase: Some(Phase::Expand),
        approve: Some("0".repeat(64)),
        ..options()
    };
    let refusal = database.run(&two(), &wrong).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("approval_mismatch", Exit::Approval)
    );
    assert!(!database.ledger().await.migrations.contains_key(&2));
}

async fn another_plan_than_the_saved_one_is_refused(database: &Database) {
    install_and_fill(database).await;
    let two = two();
    let plan = database
        .plan(&two)
        .await
        .expect("a plan")
        .digest(database.store.dialect());
    let with = |plan: String| Options {
        phase: Some(Phase::Expand),
        plan: Some(plan),
        ..options()
    };
    let refusal = database
        .run(&two, &with("0".repeat(64)))
        .await
        .expect_err("refused");
    assert_eq!((refusal.code, refusal.exit), ("plan_stale", Exit::Approval));
    database
        .run(&two, &with(plan))
        .await
        .expect("the same plan");
}

/// The second migration has a contract phase. The third one only adds to another entity.
async fn a_later_migration_expands_while_an_earlier_one_waits(database: &Database) {
    let posts = |fields| entity("posts", fields);
    let three = chain(&[
        together([first(), posts(json!({}))]),
        together([second(), posts(json!({}))]),
        together([
            second(),
            posts(json!({ "note": { "type": "string", "optional": true } })),
        ]),
    ]);
    database
        .apply_all(&chain(&[three.get(1).expect("it").snapshot.clone()]))
        .await;
    database
        .apply(&three, Some(Phase::Expand))
        .await
        .expect("expanded");
    let ledger = database.ledger().await;
    assert_eq!((ledger.seq, ledger.min_seq, ledger.max_seq), (1, 1, 3));
    assert_eq!(ledger.migrations[&2].state, MigrationState::Expanded);
    assert!(ledger.migrations[&3].state >= MigrationState::Expanded);
    database
        .execute("INSERT INTO posts (id, note) VALUES ('1', 'x')")
        .await;
    database.apply_all(&three).await;
    let ledger = database.ledger().await;
    assert_eq!((ledger.seq, ledger.min_seq, ledger.max_seq), (3, 2, 3));
    assert_eq!(database.texts("SELECT note FROM posts").await, ["x"]);
}

async fn a_later_migration_waits_for_an_earlier_one_on_the_same_field(database: &Database) {
    install_and_fill(database).await;
    let third = entity(
        "users",
        json!({
            "headline": { "type": "string", "formerNames": ["name", "title"] },
            "token": { "type": "string", "default": { "kind": "uuid" } },
            "more": { "type": "string", "optional": true },
        }),
    );
    let three = chain(&[first(), second(), third]);
    let refusal = database
        .apply(&three, Some(Phase::Expand))
        .await
        .expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("earlier_contract_pending", Exit::Incomplete)
    );
    // The earlier migration is expanded.
    let ledger = database.ledger().await;
    assert_eq!(ledger.migrations[&2].state, MigrationState::Expanded);
    assert!(!ledger.migrations.contains_key(&3));
    database.apply_all(&three).await;
    assert_eq!(
        database
            .number("SELECT count(*) FROM users WHERE headline = 'n' || id")
            .await,
        5
    );
}

async fn a_contract_waits_for_older_instances(database: &Database) {
    install_and_fill(database).await;
    let two = two();
    database.lease("web-1", 1).await;
    let refusal = database.apply(&two, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("instances_alive", Exit::Incomplete)
    );
    assert!(refusal.message.contains("web-1"), "{refusal}");
    let (min, _, state) = window(database).await;
    assert_eq!((min, state), (1, MigrationState::Backfilled));
    database.stop_instances().await;
    database.apply_all(&two).await;
}
