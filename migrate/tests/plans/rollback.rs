//! Tests of the rollback of a migration while older binaries may serve.

use linchpin_core::schema::{Snapshot, Table};
use linchpin_migrate::{Chain, Exit, MigrationState, Options, Phase, Refusal, Rollback, rollback};
use serde_json::json;

use crate::support::{Database, chain, entity, entity_with, index, options};

on_both_stores!(
    an_added_field_is_undone_with_the_digest_of_the_rollback,
    a_migration_is_undone_between_its_phases,
    a_widened_field_is_undone_while_no_record_uses_it,
    a_rollback_after_a_contract_step_is_refused,
    a_database_created_at_the_head_has_nothing_to_undo,
    a_rollback_waits_for_instances_of_the_migration,
    an_interrupted_rollback_is_continued,
);

fn first() -> Snapshot {
    entity(
        "users",
        json!({
            "name": { "type": "string" },
            "status": { "type": "enum", "values": ["a", "b"] },
        }),
    )
}

/// Adds an optional field, an enum with a default, an index and an entity.
fn second() -> Snapshot {
    let mut all = entity_with(
        "users",
        json!({
            "name": { "type": "string" },
            "status": { "type": "enum", "values": ["a", "b"] },
            "note": { "type": "string", "optional": true },
            "level": { "type": "enum", "values": ["x", "y"], "default": { "literal": "x" } },
        }),
        json!({ "indexes": [index("ix", "users", "note")] }),
    );
    all.entities.extend(entity("posts", json!({})).entities);
    all
}

/// Applies the first migration and inserts rows.
async fn install_and_fill(database: &Database) {
    database.apply_all(&chain(&[first()])).await;
    for n in 0..6 {
        let sql = format!("INSERT INTO users (id, name, status) VALUES ('{n}', 'n{n}', 'a')");
        database.execute(&sql).await;
    }
}

async fn plan_rollback(database: &Database) -> Result<Rollback, Refusal> {
    let mut session = database.session().await;
    let installed = linchpin_migrate::Installed::load(&mut *session)
        .await
        .expect("a ledger");
    Rollback::make(&*database.store, &mut *session, &installed).await
}

async fn undo(database: &Database, approve: Option<String>) -> Result<Rollback, Refusal> {
    let options = Options {
        approve,
        ..options()
    };
    rollback(&*database.store, &options, &mut |_| ()).await
}

/// Runs the rollback with the digest of its plan.
async fn undo_as_planned(database: &Database) {
    let digest = plan_rollback(database)
        .await
        .expect("a plan")
        .approval(database.store.dialect());
    let done = undo(database, digest).await;
    done.unwrap_or_else(|r| panic!("{}: {r} {:?}", r.code, r.facts));
}

async fn assert_first_again(database: &Database) {
    database.assert_at_head(&chain(&[first()])).await;
    let ledger = database.ledger().await;
    assert_eq!((ledger.seq, ledger.min_seq, ledger.max_seq), (1, 1, 1));
    assert_eq!(ledger.migrations[&2].state, MigrationState::RolledBack);
    assert!(ledger.names.is_empty());
    assert_eq!(ledger.snapshot, first());
}

async fn an_added_field_is_undone_with_the_digest_of_the_rollback(database: &Database) {
    install_and_fill(database).await;
    let two = chain(&[first(), second()]);
    database.apply_all(&two).await;
    database
        .execute("UPDATE users SET note = 'x' WHERE id <> '0'")
        .await;
    database
        .execute("UPDATE users SET level = 'y' WHERE id = '1'")
        .await;
    let plan = plan_rollback(database).await.expect("a plan");
    let lost: Vec<u64> = plan.undos.iter().filter_map(|undo| undo.lost).collect();
    // The table `posts` loses 0 values, the column `level` loses 1 and the column `note` loses 5.
    assert_eq!(
        {
            let mut lost = lost;
            lost.sort_unstable();
            lost
        },
        [0, 1, 5]
    );
    let digest = plan.approval(database.store.dialect()).expect("a digest");
    assert!(
        plan.shown(database.store.dialect())
            .contains("5 records lose a value")
    );
    let refusal = undo(database, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("approval_required", Exit::Approval)
    );
    assert!(!refusal.to_string().contains(&digest));
    let refusal = undo(database, Some("0".repeat(64)))
        .await
        .expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("approval_mismatch", Exit::Approval)
    );
    database.assert_at_head(&two).await;
    undo(database, Some(digest))
        .await
        .unwrap_or_else(|r| panic!("{r} {:?}", r.facts));
    assert_first_again(database).await;
    assert_eq!(
        database
            .number("SELECT count(*) FROM users WHERE name = 'n' || id")
            .await,
        6
    );
    // The migration may be applied again.
    database.apply_all(&two).await;
    assert_eq!(
        database.ledger().await.migrations[&2].state,
        MigrationState::Done
    );
    assert_eq!(
        database
            .number("SELECT count(*) FROM users WHERE note IS NULL")
            .await,
        6
    );
}

/// A version of the schema with a renamed and a filled field.
fn renamed() -> Chain {
    let second = entity(
        "users",
        json!({
            "title": { "type": "string", "formerNames": ["name"] },
            "status": { "type": "enum", "values": ["a", "b"] },
            "token": { "type": "string", "default": { "kind": "uuid" } },
        }),
    );
    chain(&[first(), second])
}

async fn a_migration_is_undone_between_its_phases(database: &Database) {
    install_and_fill(database).await;
    let two = renamed();
    for phases in [&[Phase::Expand][..], &[Phase::Expand, Phase::Backfill]] {
        for phase in phases {
            database.apply(&two, Some(*phase)).await.expect("applied");
        }
        undo_as_planned(database).await;
        assert_first_again(database).await;
    }
    database.apply_all(&two).await;
}

async fn a_widened_field_is_undone_while_no_record_uses_it(database: &Database) {
    install_and_fill(database).await;
    let wider = entity(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "status": { "type": "enum", "values": ["a", "b", "c"] },
        }),
    );
    let two = chain(&[first(), wider]);
    database.apply_all(&two).await;
    assert_eq!(database.ledger().await.min_seq, 2);
    database
        .execute("UPDATE users SET status = 'c' WHERE id = '3'")
        .await;
    let refusal = undo(database, None).await.expect_err("refused");
    assert_eq!((refusal.code, refusal.exit), ("values_found", Exit::Data));
    database
        .execute("UPDATE users SET status = 'a', name = NULL WHERE id = '3'")
        .await;
    let refusal = undo(database, None).await.expect_err("refused");
    assert_eq!((refusal.code, refusal.exit), ("nulls_found", Exit::Data));
    database
        .execute("UPDATE users SET name = 'n3' WHERE id = '3'")
        .await;
    undo_as_planned(database).await;
    assert_first_again(database).await;
}

async fn a_rollback_after_a_contract_step_is_refused(database: &Database) {
    install_and_fill(database).await;
    database.apply_all(&renamed()).await;
    let refusal = plan_rollback(database).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("rollback_closed", Exit::Approval)
    );
    let refusal = undo(database, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("rollback_closed", Exit::Approval)
    );
    database.assert_at_head(&renamed()).await;
}

async fn a_database_created_at_the_head_has_nothing_to_undo(database: &Database) {
    database.apply_all(&chain(&[first(), second()])).await;
    let refusal = undo(database, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("rollback_closed", Exit::Approval)
    );
}

async fn a_rollback_waits_for_instances_of_the_migration(database: &Database) {
    install_and_fill(database).await;
    database.apply_all(&chain(&[first(), second()])).await;
    database.lease("web-2", 2).await;
    database.lease("web-1", 1).await;
    let digest = plan_rollback(database)
        .await
        .expect("a plan")
        .approval(database.store.dialect());
    let refusal = undo(database, digest).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("instances_alive", Exit::Incomplete)
    );
    assert!(refusal.message.contains("web-2") && !refusal.message.contains("web-1"));
    database.assert_at_head(&chain(&[first(), second()])).await;
}

async fn an_interrupted_rollback_is_continued(database: &Database) {
    install_and_fill(database).await;
    database.apply_all(&chain(&[first(), second()])).await;
    // A view uses the column, so that one step cannot be undone.
    database
        .execute("CREATE VIEW notes AS SELECT note FROM users")
        .await;
    let digest = plan_rollback(database)
        .await
        .expect("a plan")
        .approval(database.store.dialect());
    let refusal = undo(database, digest).await.expect_err("refused");
    assert!(
        refusal.exit == Exit::Data || refusal.exit == Exit::Target,
        "{refusal}"
    );
    // Before the next attempt, no binary of the migration may serve, and the ledger agrees with the
    // tables.
    let ledger = database.ledger().await;
    assert_eq!((ledger.seq, ledger.max_seq), (1, 1));
    assert_eq!(ledger.migrations[&2].state, MigrationState::Open);
    let plan = database
        .plan(&chain(&[first(), second()]))
        .await
        .expect("a plan");
    let present = plan.migrations[0]
        .steps
        .iter()
        .filter(|s| plan.migrations[0].done.contains(&s.id));
    let mut tables = plan.start.clone();
    present.for_each(|step| step.apply(&mut tables));
    let expected: Vec<&Table> = tables.values().collect();
    let mut session = database.session().await;
    assert_eq!(session.compare(&expected).await.expect("compared"), []);
    drop(session);
    database.execute("DROP VIEW notes").await;
    undo_as_planned(database).await;
    assert_first_again(database).await;
}
