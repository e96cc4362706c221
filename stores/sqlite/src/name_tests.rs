//! Tests of a database whose tables and columns have other names than declared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::tests::thing;
use super::*;
use linchpin_conformance::{
    FILLER, FOLDER, NOTE, RenamedStore, THING, agrees_with_memory, contracted,
    items_agree_with_memory, keeps_both_columns, renamed, runs_every_plan,
};
use linchpin_core::Code;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::create_tables;
use linchpin_core::store::{Assign, AssignValue, Order, SqlAnswer, SqlQuery, TableNames};

fn execute(store: &SqliteStore, statements: Vec<String>) -> BoxFuture<'_, Result<()>> {
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

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.durability = Durability::Normal;
    SqliteStore::open(options).expect("a fresh file opens")
}

/// Statements that restore the declared names, and mark the change as done in the table `switch`.
fn switched() -> Vec<String> {
    let mut all = contracted(&[&THING]);
    all.push("UPDATE switch SET done = 1".to_owned());
    all
}

/// A store with other names of [`THING`]. It reads from the database whether the declared names are
/// in use.
async fn switching(folder: &tempfile::TempDir) -> Arc<SqliteStore> {
    let store = Arc::new(open(folder));
    create_tables(&*store, &[&THING]).await.expect("created");
    let (names, mut statements) = renamed(&[&THING]);
    statements.push("CREATE TABLE switch (done INTEGER)".to_owned());
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
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<dyn Store> =
            Arc::new(RenamedStore::new(open(&folder), vec![&THING], execute));
        (store, folder)
    };
    agrees_with_memory(30, fresh);
    items_agree_with_memory(20, fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_plan_runs_under_other_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = RenamedStore::new(open(&folder), vec![&FOLDER, &NOTE], execute);
    store.ready().await.expect("created");
    runs_every_plan(&store).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_change_under_load_without_a_failed_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
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
    let (stopped, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let load: Vec<_> = (0..4)
        .map(|task| {
            let (store, stopped, done) =
                (Arc::clone(&store), Arc::clone(&stopped), Arc::clone(&done));
            let (insert, read, scan) = (insert.clone(), read.clone(), scan.clone());
            tokio::spawn(async move {
                let mut number = 0;
                while !stopped.load(Ordering::Relaxed) {
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
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let wait_for = |count: usize| {
        let done = Arc::clone(&done);
        async move {
            while done.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    wait_for(20).await;
    execute(&store, switched()).await.expect("switched");
    wait_for(done.load(Ordering::Relaxed) + 20).await;
    stopped.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no request failed");
    }
    assert_eq!(store.names.generation(), 2);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_not_repeated_after_a_rename() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
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
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    execute(&store, switched()).await.expect("switched");
    // A write that records its rows runs in a transaction, like a write with events.
    let kept = Rows::count().with_changed_records(&THING);
    let mut rows = store
        .run(&insert, thing("a", "a"), kept)
        .await
        .expect("stored");
    let records = rows.take_changed_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0][0], Value::Text("a".to_owned()));
    store.close().await;
}

/// The column of one field is renamed while writes wait. An update of another field succeeds, but
/// its record cannot be read with the former name, so the group is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_group_is_repeated_after_a_rename() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(&folder));
    create_tables(&*store, &[&THING]).await.expect("created");
    let rename = "ALTER TABLE conformance_things RENAME COLUMN meta TO former";
    let renamed = execute(&store, vec![rename.to_owned()]).await;
    renamed.expect("renamed");
    let mut table = TableNames::new("conformance_things".to_owned());
    table.columns.insert("meta".to_owned(), "former".to_owned());
    store.set_names(Arc::new(Names {
        epoch: 1,
        tables: [("conformance_things".to_owned(), table)].into(),
    }));
    let weak = Arc::downgrade(&store);
    store.on_stale_names(Arc::new(move || {
        if let Some(store) = weak.upgrade() {
            store.set_names(Arc::new(Names {
                epoch: 2,
                ..Names::default()
            }));
        }
        Box::pin(async { Ok(()) })
    }));
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let keys: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    for key in &keys {
        let stored = store.run(&insert, thing(key, key), Rows::count()).await;
        stored.expect("stored");
    }
    let arg = |index| Source::Arg {
        index,
        nullable: true,
    };
    let update = Plan::Update {
        filter: Filter::eq_arg(0, 0),
        set: vec![Assign {
            field: 2,
            value: AssignValue::Set(arg(1)),
        }],
        pick: None,
    };
    let update = store.prepare(&THING, update).expect("a plan");

    // The first write waits for the lock of another connection, and the others wait in the queue.
    let other = rusqlite::Connection::open(folder.path().join("test.db")).expect("opened");
    let rename = "BEGIN IMMEDIATE; ALTER TABLE conformance_things RENAME COLUMN former TO meta";
    other.execute_batch(rename).expect("renamed");
    let writes: Vec<_> = keys
        .iter()
        .map(|key| {
            let args = vec![Value::Text(key.clone()), Value::Text("new".to_owned())];
            store.run(&update, args, Rows::records(&THING))
        })
        .collect();
    other.execute_batch("COMMIT").expect("committed");
    for write in writes {
        let written = write.await.expect("written");
        assert_eq!(written.count, 1);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_column_without_a_rename_is_an_internal_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
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
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
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
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let insert_with = |status: Value| {
        let mut values = thing("a", "a");
        values[7] = status;
        store.run(&insert, values, Rows::count())
    };
    let code = |outcome: Result<Rows>| outcome.map(|_| ()).map_err(|error| error.code());
    let new = || Value::Text("new".to_owned());
    for status in [Value::Null, new()] {
        assert_eq!(code(insert_with(status).await), Err(Code::Internal));
    }
    let mut names = Names::default();
    let mut table_names = TableNames::new("conformance_things");
    table_names.pending.push(linchpin_core::store::Pending {
        column: "status".to_owned(),
        null: false,
        values: Some(vec!["draft".to_owned()]),
    });
    names
        .tables
        .insert("conformance_things".to_owned(), table_names);
    store.set_names(Arc::new(names));
    for status in [Value::Null, new()] {
        assert_eq!(code(insert_with(status).await), Err(Code::SchemaPending));
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_of_a_handler_has_the_current_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = switching(&folder).await;
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
async fn a_read_omits_the_hint_of_a_missing_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let order = |field, desc| Order { field, desc };
    let page = Plan::Select {
        filter: Filter::TRUE,
        order: vec![order(3, true), order(2, false), order(0, false)],
        after: None,
        limit: Some(Source::Value(Value::Int(1))),
    };
    let page = store.prepare(&THING, page).expect("a plan");
    let sql = |page: &Statement| native(page).expect("of this store").sql.clone();
    let index = "INDEXED BY \"ix_conformance_things_rank_order\"";
    assert!(sql(&page).contains(index), "{}", sql(&page));
    let drop = "DROP INDEX ix_conformance_things_rank_order".to_owned();
    execute(&store, vec![drop]).await.expect("dropped");
    for _ in 0..2 {
        store
            .run(&page, Vec::new(), Rows::count())
            .await
            .expect("read without the index");
    }
    assert!(!sql(&page).contains("INDEXED BY"), "{}", sql(&page));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_with_a_new_type_is_written_to_both_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    keeps_both_columns(&store, execute).await;
    store.close().await;
}
