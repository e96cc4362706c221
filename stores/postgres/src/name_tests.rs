//! Tests of a database whose tables and columns have other names than declared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::tests::server;
use super::*;
use linchpin_conformance::{
    FILLER, FOLDER, NOTE, RenamedStore, THING, agrees_with_memory, contracted,
    items_agree_with_memory, keeps_both_columns, renamed, runs_every_plan,
};
use linchpin_core::Code;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::create_tables;
use linchpin_core::store::{Assign, AssignValue, SqlAnswer, SqlQuery, TableNames};

fn execute(store: &PostgresStore, statements: Vec<String>) -> BoxFuture<'_, Result<()>> {
    Box::pin(async move {
        let mut open = store.pool.begin().await.map_err(Error::internal)?;
        for statement in statements {
            sqlx::query(sqlx::AssertSqlSafe(statement))
                .execute(&mut *open)
                .await
                .map_err(Error::internal)?;
        }
        open.commit().await.map_err(Error::internal)
    })
}

fn open() -> PostgresStore {
    let mut options = PostgresOptions::new(server::fresh_url());
    (options.readers, options.scans, options.writers) = (1, 1, 2);
    PostgresStore::open(options).expect("a URL that can be used")
}

fn thing(id: &str, slug: &str) -> Vec<Value> {
    let mut record = vec![Value::Null; THING.fields.len()];
    for (at, text) in [(0, id), (1, slug), (7, "draft")] {
        record[at] = Value::Text(text.to_owned());
    }
    record
}

/// Statements that restore the declared names, and mark the change as done in the table `switch`.
fn switched() -> Vec<String> {
    let mut all = contracted(&[&THING]);
    all.push("UPDATE switch SET done = 1".to_owned());
    all
}

/// A store with other names of [`THING`]. It reads from the database whether the declared names are
/// in use.
async fn switching() -> Arc<PostgresStore> {
    let store = Arc::new(open());
    create_tables(&*store, &[&THING]).await.expect("created");
    let (names, mut statements) = renamed(&[&THING]);
    statements.push("CREATE TABLE switch (done BIGINT)".to_owned());
    statements.push("INSERT INTO switch VALUES (0)".to_owned());
    execute(&store, statements).await.expect("renamed");
    store.set_names(Arc::new(names));
    let weak = Arc::downgrade(&store);
    store.on_stale_names(Arc::new(move || {
        let weak = weak.clone();
        Box::pin(async move {
            let Some(store) = weak.upgrade() else {
                return Ok(());
            };
            let done: i64 = sqlx::query_scalar("SELECT done FROM switch")
                .fetch_one(&store.pool)
                .await
                .map_err(Error::internal)?;
            if done == 1 {
                store.set_names(Arc::new(Names {
                    epoch: 2,
                    ..Names::default()
                }));
            }
            Ok(())
        })
    }));
    store
}

#[test]
fn every_statement_agrees_with_the_memory_store_under_other_names() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let fresh = || {
        let store: Arc<dyn Store> = Arc::new(RenamedStore::new(open(), vec![&THING], execute));
        (store, ())
    };
    agrees_with_memory(30, fresh);
    items_agree_with_memory(20, fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plan_runs_under_other_names() {
    let store = RenamedStore::new(open(), vec![&FOLDER, &NOTE], execute);
    store.ready().await.expect("created");
    runs_every_plan(&store).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_change_under_load_without_a_failed_request() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let by_key = |filter| Plan::Select {
        filter,
        order: Vec::new(),
        after: None,
        limit: None,
    };
    let read = store
        .prepare(&THING, by_key(Filter::eq_arg(0, 0)))
        .expect("a plan");
    // The title has no index: a long read.
    let scan = store
        .prepare(&THING, by_key(Filter::eq_arg(2, 0)))
        .expect("a plan");
    let (stop, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let load: Vec<_> = (0..4)
        .map(|task| {
            let (store, stop, rounds) =
                (Arc::clone(&store), Arc::clone(&stop), Arc::clone(&rounds));
            let (insert, read, scan) = (insert.clone(), read.clone(), scan.clone());
            tokio::spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("{task}-{number}");
                    number += 1;
                    let record = thing(&key, &key);
                    let stored = store.run(&insert, record, Rows::count()).await;
                    stored.expect("stored");
                    let key = vec![Value::Text(key)];
                    let found = store.run(&read, key, Rows::count()).await.expect("read");
                    assert_eq!(found.count, 1);
                    let none = vec![Value::Text("none".to_owned())];
                    store.run(&scan, none, Rows::count()).await.expect("read");
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let wait_for_rounds = |count: usize| {
        let rounds = Arc::clone(&rounds);
        async move {
            while rounds.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    wait_for_rounds(20).await;
    execute(&store, switched()).await.expect("switched");
    wait_for_rounds(rounds.load(Ordering::Relaxed) + 20).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no request failed");
    }
    assert_eq!(store.names.generation(), 2);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_not_repeated_after_a_rename() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    execute(&store, switched()).await.expect("switched");

    let mut open = store.begin().await.expect("begun");
    let refused = open.run(&insert, thing("a", "a"), Rows::count()).await;
    let refused = refused.expect_err("the names have changed");
    assert_eq!(
        (refused.code(), refused.retry_after_seconds()),
        (Code::SchemaPending, Some(1))
    );
    open.rollback().await;

    let mut open = store.begin().await.expect("begun");
    open.run(&insert, thing("a", "a"), Rows::count())
        .await
        .expect("stored");
    open.commit().await.expect("committed");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_write_is_repeated_under_the_new_names() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    execute(&store, switched()).await.expect("switched");
    // A write that records its rows runs in a separate transaction, like a write with events.
    let recorded_rows = Rows::count().with_changed_records(&THING);
    let mut rows = store
        .run(&insert, thing("a", "a"), recorded_rows)
        .await
        .expect("stored");
    let records = rows.take_changed_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0][0], Value::Text("a".to_owned()));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_column_without_a_rename_is_an_internal_error() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let drop = "ALTER TABLE \"was conformance_things\" DROP COLUMN \"was meta\"";
    execute(&store, vec![drop.to_owned()])
        .await
        .expect("dropped");
    let refused = store.run(&insert, thing("a", "a"), Rows::count()).await;
    assert_eq!(refused.map_err(|e| e.code()).err(), Some(Code::Internal));
    let mut open = store.begin().await.expect("begun");
    let refused = open.run(&insert, thing("a", "a"), Rows::count()).await;
    assert_eq!(refused.map_err(|e| e.code()).err(), Some(Code::Internal));
    open.rollback().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_column_without_a_field_is_filled() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    store
        .run(&insert, thing("a", "a"), Rows::count())
        .await
        .expect("stored");
    let filled: String = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "SELECT {FILLER} FROM \"was conformance_things\""
    )))
    .fetch_one(&store.pool)
    .await
    .expect("a record");
    assert_eq!(filled, "none");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_database_does_not_accept_yet_is_schema_pending() {
    let store = open();
    create_tables(&store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let with = |status: Value| {
        let mut values = thing("a", "a");
        values[7] = status;
        store.run(&insert, values, Rows::count())
    };
    let code = |outcome: Result<Rows>| outcome.map(|_| ()).map_err(|error| error.code());
    let new = || Value::Text("new".to_owned());
    for status in [Value::Null, new()] {
        assert_eq!(code(with(status).await), Err(Code::Internal));
    }
    let mut names = Names::default();
    let mut own = TableNames::new("conformance_things");
    own.pending.push(linchpin_core::store::Pending {
        column: "status".to_owned(),
        null: false,
        values: Some(vec!["draft".to_owned()]),
    });
    names.tables.insert("conformance_things".to_owned(), own);
    store.set_names(Arc::new(names));
    for status in [Value::Null, new()] {
        assert_eq!(code(with(status).await), Err(Code::SchemaPending));
    }
    store.close().await;
}

#[test]
fn a_statement_rendered_before_the_end_of_a_migration_is_still_schema_pending() {
    let names_after_the_end = linchpin_sql::names::Naming::default();
    let is_pending = |message: &str| {
        let at = (None, None);
        crate::error::is_pending(&names_after_the_end, &THING, "22P02", at, message)
    };
    assert!(is_pending(
        "invalid input syntax for type bigint: \"linchpin: schema_pending: status\""
    ));
    assert!(!is_pending("invalid input syntax for type bigint: \"x\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_value_leaves_no_record_in_the_log_of_the_server() {
    // The test starts its own server, so the log contains only its statements.
    let server = server::Server::start();
    let mut options = PostgresOptions::new(server.url());
    (options.readers, options.scans, options.writers) = (1, 1, 2);
    let store = PostgresStore::open(options).expect("a URL that can be used");
    create_tables(&store, &[&THING]).await.expect("created");
    let text = |text: &str| Value::Text(text.to_owned());
    let kept = Operand::One(Source::Value(text("kept")));
    let update = Plan::Update {
        filter: Filter::cond(0, Op::Eq, kept),
        set: vec![Assign {
            field: 7,
            value: AssignValue::Set(Source::Arg {
                index: 0,
                nullable: true,
            }),
        }],
        pick: None,
    };
    let update = store.prepare(&THING, update).expect("a plan");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let with = |slug: &str, status: Value| {
        let mut values = thing("refused", slug);
        values[7] = status;
        store.run(&insert, values, Rows::count())
    };
    let code = |outcome: Result<Rows>| outcome.map(|_| ()).map_err(|error| error.code());
    let kept = store.run(&insert, thing("kept", "kept-secret"), Rows::count());
    kept.await.expect("stored");
    // The server logs a violated constraint with the values of the record.
    let refused = code(with("shown-secret", text("new")).await);
    assert_eq!(refused, Err(Code::Internal));
    assert!(server.log().contains("shown-secret"), "{}", server.log());

    let mut own = TableNames::new("conformance_things");
    let status = Some(vec!["draft".to_owned()]);
    for (column, values) in [("status", status), ("slug", None)] {
        own.pending.push(linchpin_core::store::Pending {
            column: column.to_owned(),
            null: false,
            values,
        });
    }
    let mut names = Names::default();
    names.tables.insert("conformance_things".to_owned(), own);
    store.set_names(Arc::new(names));
    // After five runs the server may use a generic plan.
    for _ in 0..8 {
        for status in [Value::Null, text("new")] {
            let refused = code(with("hidden-secret", status.clone()).await);
            assert_eq!(refused, Err(Code::SchemaPending));
            let refused = store.run(&update, vec![status], Rows::count()).await;
            assert_eq!(code(refused), Err(Code::SchemaPending));
        }
        let mut nameless = thing("hidden-secret", "");
        nameless[1] = Value::Null;
        let refused = store.run(&insert, nameless, Rows::count()).await;
        assert_eq!(code(refused), Err(Code::SchemaPending));
        let stored = store.run(&update, vec![text("draft")], Rows::count()).await;
        stored.expect("stored");
    }
    let stored = store.run(&insert, thing("more", "more"), Rows::count());
    stored.await.expect("stored");
    let log = server.log();
    for column in ["status", "slug"] {
        assert!(log.contains(&format!("schema_pending: {column}")), "{log}");
    }
    for secret in ["hidden-secret", "kept-secret"] {
        assert!(!log.contains(secret), "{log}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_of_a_handler_has_the_current_names() {
    let store = switching().await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    store
        .run(&insert, thing("a", "b"), Rows::count())
        .await
        .expect("stored");
    let driver = store.sql().expect("a driver");
    let query = |text: &'static str| SqlQuery {
        entity: &THING,
        text,
        values: Vec::new(),
        filter: Filter::cond(
            0,
            Op::Eq,
            Operand::One(Source::Value(Value::Text("a".to_owned()))),
        ),
    };
    let texts = [
        "SELECT {column:slug} AS slug FROM {table} WHERE {guard}",
        "SELECT {table}.{column:slug} AS slug FROM {visible}",
    ];
    for switch in [false, true] {
        if switch {
            execute(&store, switched()).await.expect("switched");
            let mut open = driver.begin(&THING).await.expect("begun");
            let refused = driver.run(query(texts[0]), Some(&mut open), true).await;
            assert_eq!(
                refused.map_err(|e| e.code()).err(),
                Some(Code::SchemaPending)
            );
        }
        for text in texts {
            driver.check(&THING, text).await.expect("a statement");
            let found = driver.run(query(text), None, true).await.expect("rows");
            let SqlAnswer::Rows(found) = found else {
                panic!("no rows")
            };
            assert_eq!(found[0].get::<String>("slug").expect("a text"), "b");
        }
    }
    let unknown = "SELECT {column:slogan} FROM {table} WHERE {guard}";
    assert!(driver.check(&THING, unknown).await.is_err());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_with_a_new_type_is_written_to_both_columns() {
    let store = open();
    keeps_both_columns(&store, execute).await;
    store.close().await;
}
