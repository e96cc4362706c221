//! Tests of runs: after an interrupted run, with objects that the app does not declare, and several
//! at the same time.

use linchpin_core::schema::{Snapshot, TransactionMode};
use linchpin_migrate::{Exit, MigrationState, Options, Phase, StepState};
use serde_json::json;

use crate::support::{Database, chain, entity, entity_with, index, options};

on_both_stores!(
    a_new_database_has_its_steps_in_the_ledger,
    five_runs_at_once_do_each_step_once,
    undeclared_triggers_views_and_indexes_stay,
    a_difference_in_a_touched_table_is_refused,
    a_run_that_lost_its_lock_ends_at_once,
    a_step_of_another_build_is_refused,
    an_instance_that_starts_while_the_window_closes_keeps_it_open,
);

fn first() -> Snapshot {
    entity_with(
        "users",
        json!({ "name": { "type": "string" }, "age": { "type": "integer", "optional": true } }),
        json!({ "indexes": [index("ix", "users", "name")] }),
    )
}

/// `name` becomes optional, `level` is new, and `age` and the index are dropped.
fn second() -> Snapshot {
    entity(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "level": { "type": "enum", "values": ["a", "b"], "optional": true },
        }),
    )
}

/// Applies the first migration and inserts rows.
async fn install_and_fill(database: &Database) {
    database.apply_all(&chain(&[first()])).await;
    database
        .execute("INSERT INTO users (id, name, age) VALUES ('1', 'a', 1)")
        .await;
}

async fn a_new_database_has_its_steps_in_the_ledger(database: &Database) {
    let done = database.apply_all(&chain(&[first()])).await;
    let ledger = database.ledger().await;
    assert_eq!(ledger.steps.keys().cloned().collect::<Vec<_>>(), done.steps);
    assert_eq!(done.steps, ["0001.01", "0001.02"]);
    for step in ledger.steps.values() {
        assert_eq!((step.state, step.attempts), (StepState::Done, 1));
    }
    assert_eq!(ledger.migrations[&1].state, MigrationState::Done);
    assert_eq!(ledger.placed, ["users"]);
}

async fn five_runs_at_once_do_each_step_once(database: &Database) {
    let (one, two) = (chain(&[first()]), chain(&[first(), second()]));
    for chain in [&one, &two] {
        let options = Options {
            approve: database.digest(chain).await,
            ..options()
        };
        // A run of a plan that is already done does not compare the digest.
        let runs = (0..5).map(|_| database.run(chain, &options));
        let done = join_all(runs.collect()).await;
        let steps: usize = done
            .iter()
            .map(|done| done.as_ref().expect("done").steps.len())
            .sum();
        let ledger = database.ledger().await;
        let own = ledger.steps.values().filter(|step| step.seq == chain.seq());
        let attempts: Vec<u64> = own.map(|step| step.attempts).collect();
        assert_eq!(steps, attempts.len());
        assert!(
            attempts.iter().all(|attempts| *attempts == 1),
            "{attempts:?}"
        );
        database.assert_at_head(chain).await;
    }
}

/// Waits for all futures together.
async fn join_all<T>(all: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|cx| {
        for (one, done) in &mut all {
            if done.is_none()
                && let std::task::Poll::Ready(value) = one.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}

async fn undeclared_triggers_views_and_indexes_stay(database: &Database) {
    install_and_fill(database).await;
    database
        .execute("CREATE TABLE others (id TEXT PRIMARY KEY, owner TEXT REFERENCES users (id))")
        .await;
    database
        .execute("INSERT INTO others VALUES ('o', '1')")
        .await;
    database.execute("CREATE INDEX theirs ON users (age)").await;
    database
        .execute("CREATE UNIQUE INDEX theirs_too ON users (name, id)")
        .await;
    database
        .execute("CREATE VIEW names AS SELECT name FROM users")
        .await;
    if database.is_sqlite() {
        database
            .execute("CREATE TRIGGER watch AFTER INSERT ON users BEGIN SELECT 1; END")
            .await;
    } else {
        database
            .execute("CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
            .await;
        database
            .execute(
                "CREATE TRIGGER watch AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION watch()",
            )
            .await;
    }
    // SQLite rebuilds the table.
    let wider = entity_with(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "age": { "type": "integer", "optional": true },
        }),
        json!({ "indexes": [index("ix", "users", "name")] }),
    );
    database
        .apply(&chain(&[first(), wider]), None)
        .await
        .unwrap_or_else(|r| panic!("{r} {:?}", r.facts));
    let sql = if database.is_sqlite() {
        "SELECT name FROM sqlite_schema WHERE name IN ('theirs', 'theirs_too', 'names', 'watch') ORDER BY name"
    } else {
        "SELECT name FROM (SELECT relname::text AS name FROM pg_class UNION ALL \
         SELECT tgname::text FROM pg_trigger) AS all_names \
         WHERE name IN ('theirs', 'theirs_too', 'names', 'watch') ORDER BY name"
    };
    assert_eq!(
        database.texts(sql).await,
        ["names", "theirs", "theirs_too", "watch"]
    );
    assert_eq!(database.texts("SELECT name FROM names").await, ["a"]);
    if database.is_sqlite() {
        assert_eq!(
            database
                .number("SELECT count(*) FROM pragma_foreign_key_check")
                .await,
            0
        );
    }
}

async fn a_difference_in_a_touched_table_is_refused(database: &Database) {
    install_and_fill(database).await;
    database.execute("DROP INDEX ix_users_name").await;
    let refusal = database
        .apply(&chain(&[first(), second()]), None)
        .await
        .expect_err("refused");
    assert_eq!((refusal.code, refusal.exit), ("drift", Exit::Data));
    assert!(
        refusal.facts[0].text.contains("ix_users_name"),
        "{:?}",
        refusal.facts
    );
}

async fn a_run_that_lost_its_lock_ends_at_once(database: &Database) {
    install_and_fill(database).await;
    let two = chain(&[first(), second()]);
    let digest = database.digest(&two).await;
    let declared = database.declared(&two);
    let options = Options {
        approve: digest,
        ..options()
    };
    let store = std::sync::Arc::clone(&database.store);
    let reported = std::sync::Mutex::new(0);
    // Another runner takes over while this one is about to run its first step.
    let handle = tokio::runtime::Handle::current();
    let other = std::sync::Arc::clone(&database.store);
    let mut report = |_: &str| {
        let mut reported = reported.lock().expect("no panic");
        *reported += 1;
        if *reported == 1 {
            tokio::task::block_in_place(|| {
                handle.block_on(async {
                    let mut session = other.connect().await.expect("a session");
                    session
                        .execute("UPDATE linchpin_schema SET runner = runner + 1", &[])
                        .await
                        .expect("taken over");
                });
            });
        }
    };
    let refusal = linchpin_migrate::apply(&*store, (&two, &declared), &options, &mut report)
        .await
        .expect_err("refused");
    assert_eq!((refusal.code, refusal.exit), ("lock_lost", Exit::Busy));
    // The run has begun no second step.
    assert_eq!(*reported.lock().expect("no panic"), 1);
    assert!(!database.ledger().await.steps.contains_key("0002.01"));
    database.apply_all(&two).await;
}

async fn a_step_of_another_build_is_refused(database: &Database) {
    install_and_fill(database).await;
    let two = chain(&[first(), second()]);
    database
        .apply(&two, Some(Phase::Expand))
        .await
        .expect("expanded");
    database
        .execute("UPDATE linchpin_migration_steps SET digest = 'other' WHERE id = '0002.01'")
        .await;
    let refusal = database.plan(&two).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("step_changed", Exit::Planning)
    );
    assert!(refusal.message.contains("0002.01"), "{refusal}");
}

/// A trigger writes the lease of an instance when the run closes the window. This is after the run
/// has read the leases, and before it changes the table.
async fn an_instance_that_starts_while_the_window_closes_keeps_it_open(database: &Database) {
    install_and_fill(database).await;
    database.lease("late", 1).await;
    database
        .execute("CREATE TABLE linchpin_late AS SELECT * FROM linchpin_instances")
        .await;
    database.stop_instances().await;
    let insert = "INSERT INTO linchpin_instances SELECT * FROM linchpin_late";
    let trigger = "CREATE TRIGGER late AFTER UPDATE ON linchpin_schema FOR EACH ROW \
                   WHEN (new.min_seq > old.min_seq)";
    if database.is_sqlite() {
        let sql = format!("{trigger} BEGIN {insert}; END");
        database.execute(&sql).await;
    } else {
        let function = format!(
            "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN {insert}; RETURN NULL; END'"
        );
        database.execute(&function).await;
        let sql = format!("{trigger} EXECUTE FUNCTION late()");
        database.execute(&sql).await;
    }
    let two = chain(&[first(), second()]);
    let refusal = database.apply(&two, None).await.expect_err("refused");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("instances_alive", Exit::Incomplete)
    );
    assert!(refusal.message.contains("late"), "{refusal}");
    assert_eq!(database.ledger().await.min_seq, 1);
    // The instance has stopped.
    database.execute("DELETE FROM linchpin_late").await;
    database.apply_all(&two).await;
    assert_eq!(database.ledger().await.min_seq, 2);
}

/// A Postgres step outside a transaction may be done before a crash but not recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_a_crash_left_unrecorded_is_continued_on_postgres() {
    let database = &Database::postgres();
    install_and_fill(database).await;
    let two = chain(&[first(), second()]);
    let running = |id: &str| {
        format!(
            "UPDATE linchpin_migration_steps SET state = 'running', done_at = NULL WHERE id = '{id}'"
        )
    };
    let plan = database.plan(&two).await.expect("a plan");
    let step = |kind: &str| {
        let mut steps = plan.migrations[0].steps.iter().rev();
        steps
            .find(|step| step.kind == kind)
            .expect("a step")
            .id
            .clone()
    };
    // The column exists, but its check is not validated.
    let (add, drop) = (step("addColumn"), step("dropIndex"));
    database
        .apply(&two, Some(Phase::Expand))
        .await
        .expect("expanded");
    database
        .execute("ALTER TABLE users DROP CONSTRAINT ck_users_level")
        .await;
    database
        .execute(
            "ALTER TABLE users ADD CONSTRAINT ck_users_level CHECK (level IN ('a', 'b')) NOT VALID",
        )
        .await;
    database.execute(&running(&add)).await;
    database
        .execute("UPDATE linchpin_migrations SET state = 'open' WHERE seq = 2")
        .await;
    database
        .apply(&two, Some(Phase::Expand))
        .await
        .unwrap_or_else(|r| panic!("{r} {:?}", r.facts));
    // The index was dropped, but the step is not recorded as done.
    let mut session = database.session().await;
    session.begin(TransactionMode::Write).await.expect("begun");
    let sql = "INSERT INTO linchpin_migration_steps (id, seq, digest, class, state, attempts, \
               rows_done, rows_failed, started_at) SELECT $1, 2, $2, 'empty', 'running', 1, 0, 0, now()";
    let digest = plan.migrations[0]
        .steps
        .iter()
        .find(|s| s.id == drop)
        .expect("it")
        .digest
        .clone();
    let text = |text: &str| {
        let kind = linchpin_core::schema::ColumnKind::String;
        (linchpin_core::Value::Text(text.to_owned()), kind)
    };
    session
        .execute(sql, &[text(&drop), text(&digest)])
        .await
        .expect("inserted");
    session
        .execute("DROP INDEX ix_users_name", &[])
        .await
        .expect("dropped");
    session.commit().await.expect("committed");
    database.apply_all(&two).await;
}
