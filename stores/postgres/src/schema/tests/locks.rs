//! Tests of waits for other sessions, of index builds, and of the lock of migrations.

use std::time::{Duration, Instant};

use linchpin_core::schema::{
    Action, Column, ColumnKind, Dialect, IndexState, Locking, SchemaFault, SchemaSession,
    SchemaStore, Tables, TransactionMode,
};

use linchpin_core::store::Store;

use super::{
    column, compare, create, index, perform, reader, run, session, store, store_apart, tasks,
};
use crate::PostgresDialect;
use crate::schema::store::backend;

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_waits_for_another_session_times_out() {
    let store = store();
    let mut own = session(&store).await;
    let mut tables = Tables::new();
    create(&mut own, &tasks(), &mut tables).await;
    let mut other = reader(&store, "tasks").await;
    let add = Action::AddColumn {
        table: "tasks".to_owned(),
        column: Column {
            optional: true,
            ..column("note", ColumnKind::String)
        },
    };
    for in_transaction in [false, true] {
        own.set_lock_timeout(Duration::from_millis(300));
        if in_transaction {
            own.begin(TransactionMode::Write).await.expect("begun");
        }
        let begun = Instant::now();
        let error = own.perform(&add, &tables).await.expect_err("locked");
        assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
        assert!(begun.elapsed() < Duration::from_millis(1500));
        own.rollback().await;
        assert_eq!(compare(&mut own, &tables).await, []);
    }
    // Outside a transaction too.
    let begun = Instant::now();
    let error = own
        .execute("TRUNCATE tasks", &[])
        .await
        .expect_err("locked");
    assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
    assert!(begun.elapsed() < Duration::from_millis(1500));
    other.rollback().await;
    perform(&mut own, &add, &mut tables).await.expect("added");
    assert_eq!(compare(&mut own, &tables).await, []);
    store.close().await;
}

/// The check is not verified within the transaction that adds the column.
#[tokio::test(flavor = "multi_thread")]
async fn an_enum_column_is_added_with_a_short_lock() {
    let store = store();
    let mut own = session(&store).await;
    let mut tables = Tables::new();
    create(&mut own, &tasks(), &mut tables).await;
    let add = |name: &str| Action::AddColumn {
        table: "tasks".to_owned(),
        column: Column {
            optional: true,
            ..column(name, ColumnKind::Enum(vec!["a".to_owned(), "b".to_owned()]))
        },
    };
    let before = tables.clone();
    // A crash between the statements.
    let statements = PostgresDialect.statements(&add("one"), &before);
    assert_eq!(statements.len(), 2, "{statements:?}");
    run(&mut own, &statements[0]).await;
    for name in ["one", "two"] {
        perform(&mut own, &add(name), &mut tables)
            .await
            .expect("added");
        assert_eq!(compare(&mut own, &tables).await, []);
    }
    own.perform(&add("two"), &before).await.expect("there");
    // An open transaction contains both statements.
    own.begin(TransactionMode::Write).await.expect("begun");
    own.perform(&add("three"), &tables).await.expect("added");
    own.rollback().await;
    assert_eq!(compare(&mut own, &tables).await, []);
    own.set_lock_timeout(Duration::from_millis(200));
    let mut other = reader(&store, "tasks").await;
    let error = own
        .perform(&add("three"), &tables)
        .await
        .expect_err("locked");
    assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
    other.rollback().await;
    perform(&mut own, &add("three"), &mut tables)
        .await
        .expect("added");
    assert_eq!(compare(&mut own, &tables).await, []);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_unique_build_leaves_no_index() {
    let store = store();
    let mut own = session(&store).await;
    let mut tables = Tables::new();
    let mut plain = tasks();
    plain.indexes.clear();
    create(&mut own, &plain, &mut tables).await;
    run(
        &mut own,
        "INSERT INTO tasks (title, status, urgent, tags) SELECT 'private', 'open', true, '{}' FROM generate_series(1, 2)",
    )
    .await;
    let ux = index("ux_tasks_title", &["title"], true);
    let build = Action::CreateIndex {
        table: "tasks".to_owned(),
        index: ux.clone(),
        concurrently: true,
    };
    let error = own.perform(&build, &tables).await.expect_err("duplicates");
    assert_eq!(error.fault, SchemaFault::Violation, "{error}");
    assert!(!error.message.contains("private"), "{error}");
    assert_eq!(
        SchemaSession::index_state(&mut own, &ux)
            .await
            .expect("a state"),
        IndexState::Absent
    );
    // The state after a crash during a build.
    sqlx::raw_sql("CREATE UNIQUE INDEX CONCURRENTLY ux_tasks_title ON tasks (title)")
        .execute(&mut own.connection)
        .await
        .expect_err("duplicates");
    assert_eq!(
        SchemaSession::index_state(&mut own, &ux)
            .await
            .expect("a state"),
        IndexState::Invalid
    );
    run(&mut own, "DELETE FROM tasks").await;
    let before = tables.clone();
    perform(&mut own, &build, &mut tables).await.expect("built");
    assert_eq!(compare(&mut own, &tables).await, []);
    // A build that was finished before a crash is not repeated. An index with this name and another
    // definition is refused.
    own.perform(&build, &before).await.expect("built already");
    let other = Action::CreateIndex {
        table: "tasks".to_owned(),
        index: index("ux_tasks_title", &["title"], false),
        concurrently: true,
    };
    let error = own.perform(&other, &before).await.expect_err("another one");
    assert!(error.message.contains("another definition"), "{error}");
    // After the build, the lock timeout applies again.
    own.set_lock_timeout(Duration::from_millis(200));
    let mut other = reader(&store, "tasks").await;
    let error = own
        .execute("TRUNCATE tasks", &[])
        .await
        .expect_err("locked");
    assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
    other.rollback().await;
    let drop = Action::DropIndex {
        table: "tasks".to_owned(),
        index: "ux_tasks_title".to_owned(),
    };
    own.begin(TransactionMode::Write).await.expect("begun");
    own.perform(&drop, &tables)
        .await
        .expect_err("within a transaction");
    own.rollback().await;
    for _ in 0..2 {
        perform(&mut own, &drop, &mut tables)
            .await
            .expect("dropped");
    }
    assert_eq!(compare(&mut own, &tables).await, []);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_build_blocked_by_a_transaction_times_out_and_names_it() {
    let store = store_apart();
    let mut own = session(&store).await;
    let mut tables = Tables::new();
    create(&mut own, &tasks(), &mut tables).await;
    run(&mut own, "CREATE TABLE elsewhere (n bigint)").await;
    own.set_index_wait(Duration::from_millis(600));
    own.set_lock_timeout(Duration::from_millis(600));
    let ix = index("ix_tasks_due", &["due"], false);
    let build = Action::CreateIndex {
        table: "tasks".to_owned(),
        index: ix.clone(),
        concurrently: true,
    };
    // A transaction that has read another table holds only a snapshot. A transaction that has read
    // this table also prevents the removal of the index.
    for (table, state_after) in [
        ("elsewhere", IndexState::Absent),
        ("tasks", IndexState::Invalid),
    ] {
        let mut other = reader(&store, table).await;
        let pid = backend(&mut other.connection).await.expect("a process");
        let begun = Instant::now();
        let error = own.perform(&build, &tables).await.expect_err("it waits");
        assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
        assert!(
            error
                .message
                .contains(&format!("session {pid} of linchpin")),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10));
        let state = SchemaSession::index_state(&mut own, &ix)
            .await
            .expect("a state");
        assert_eq!(state, state_after, "{error}");
        other.rollback().await;
    }
    perform(&mut own, &build, &mut tables).await.expect("built");
    assert_eq!(compare(&mut own, &tables).await, []);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_process_has_the_lock_of_migrations() {
    let store = store_apart();
    let Locking::Taken(mut lock) = store.schema.try_lock().await.expect("an answer") else {
        panic!("the lock is taken")
    };
    lock.check().await.expect("held");
    let Locking::Busy(holder) = store.schema.try_lock().await.expect("an answer") else {
        panic!("taken twice")
    };
    let process = format!("process {} on ", std::process::id());
    assert!(
        holder.contains(&process) && holder.contains(" since "),
        "{holder}"
    );
    drop(lock);
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        match store.schema.try_lock().await.expect("an answer") {
            Locking::Taken(mut lock) => {
                // The lock is reported as lost after its session has ended.
                let mut own = session(&store).await;
                run(
                    &mut own,
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1752198706 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                )
                .await;
                let error = lock.check().await.expect_err("lost");
                assert_eq!(error.fault, SchemaFault::LockLost, "{error}");
                break;
            }
            Locking::Busy(holder) => assert!(Instant::now() < end, "{holder}"),
        }
    }
    store.close().await;
}
