//! Compares the store with the memory store, and tests the behavior of its connections.

use super::*;
use linchpin_conformance::{
    THING, agrees_with_memory, entity, items_agree_with_memory, refuses_once_closed,
};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::Order;
use linchpin_core::store::create_tables;

#[path = "../../../runtime/tests/support/postgres.rs"]
pub(super) mod server;

fn fresh() -> (Arc<dyn Store>, ()) {
    let mut options = PostgresOptions::new(server::fresh_url());
    (options.readers, options.scans, options.writers) = (1, 1, 1);
    (
        Arc::new(PostgresStore::open(options).expect("a URL that can be used")),
        (),
    )
}

#[test]
fn agrees_with_the_memory_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    agrees_with_memory(100, fresh);
    items_agree_with_memory(40, fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_refuses_calls() {
    let store = PostgresStore::open(PostgresOptions::new(server::fresh_url())).expect("opened");
    refuses_once_closed(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_folds_case_like_the_framework() {
    let store = PostgresStore::open(PostgresOptions::new(server::fresh_url())).expect("opened");
    create_tables(&store, &[&THING]).await.expect("created");
    let all: Vec<char> = ('\u{1}'..=char::MAX).collect();
    // The characters are checked in parts, because a statement has a time limit.
    for part in all.chunks(0x1_0000) {
        let part: String = part.iter().collect();
        let folded: String = sqlx::query_scalar("SELECT linchpin_fold($1)")
            .bind(&part)
            .fetch_one(store.pool())
            .await
            .expect("folded");
        assert!(folded == linchpin_core::filter::eval::fold(&part));
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_lane_refuses_statements_immediately() {
    let mut options = PostgresOptions::new(server::fresh_url());
    options.in_flight = 1;
    let store = PostgresStore::open(options).expect("opened");
    create_tables(&store, &[&THING]).await.expect("created");
    let exists = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(0, 0),
            },
        )
        .expect("a plan");
    let find = || store.run(&exists, vec![Value::Text("k".to_owned())], Rows::count());
    let permit = store.reads.admit().expect("a permit");
    let refused = find().await.expect_err("full");
    assert_eq!(
        (refused.code(), refused.retry_after_seconds()),
        (linchpin_core::Code::Unavailable, Some(1))
    );
    // Long reads have separate connections.
    let scan = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let scan = || {
        store.run(
            &scan,
            vec![Value::Text("no such".to_owned())],
            Rows::count(),
        )
    };
    scan().await.expect("the other lane has a permit");
    drop(permit);
    find().await.expect("the permit is free again");
    let permit = store.scans.admit().expect("a permit");
    assert_eq!(
        scan().await.map(|rows| rows.count).map_err(|e| e.code()),
        Err(linchpin_core::Code::Unavailable)
    );
    find().await.expect("the other lane has a permit");
    drop(permit);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_cancels_a_statement_that_takes_too_long() {
    let mut options = PostgresOptions::new(server::fresh_url());
    options.statement_timeout = Duration::from_millis(500);
    let store = PostgresStore::open(options).expect("opened");
    create_tables(&store, &[&THING]).await.expect("created");
    let mut record = vec![Value::Null; THING.fields.len()];
    (record[0], record[7]) = (Value::Text("k".to_owned()), Value::Text("draft".to_owned()));
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let exists = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(0, 0),
            },
        )
        .expect("a plan");
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let refused = store
        .run(&insert, record.clone(), Rows::count())
        .await
        .expect_err("it waits for the lock");
    assert_eq!(refused.code(), linchpin_core::Code::Timeout, "{refused:?}");
    let refused = store
        .run(&exists, vec![Value::Text("k".to_owned())], Rows::count())
        .await
        .expect_err("it waits for the lock");
    assert_eq!(refused.code(), linchpin_core::Code::Timeout, "{refused:?}");
    other.rollback().await.expect("undone");
    // The connections still work, and the stopped statements changed nothing.
    assert_eq!(
        store
            .run(&exists, vec![Value::Text("k".to_owned())], Rows::count())
            .await
            .expect("an answer")
            .count,
        0
    );
    store
        .run(&insert, record, Rows::count())
        .await
        .expect("inserted");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn covered_reads_use_the_index_without_table_statistics() {
    let store = PostgresStore::open(PostgresOptions::new(server::fresh_url())).expect("opened");
    create_tables(&store, &[&THING]).await.expect("created");
    let (client, connection) = store
        .connector
        .indexed()
        .connect()
        .await
        .expect("a connection");
    tokio::spawn(connection);
    store
        .connector
        .indexed()
        .prepare(&client)
        .await
        .expect("its settings");
    let order = vec![
        Order {
            field: 3,
            desc: true,
        },
        Order {
            field: 2,
            desc: false,
        },
        Order {
            field: 0,
            desc: false,
        },
    ];
    let arg = |index| Source::Arg {
        index,
        nullable: false,
    };
    let of_rank = Filter::eq_arg(3, 1);
    let plans = [
        (
            Plan::Select {
                filter: Filter::TRUE,
                order: order.clone(),
                after: None,
                limit: Some(arg(0)),
            },
            "(bigint)",
            "(21)",
        ),
        (
            Plan::Select {
                filter: of_rank,
                order,
                after: None,
                limit: Some(arg(0)),
            },
            "(bigint, bigint)",
            "(7, 21)",
        ),
        (
            Plan::Select {
                filter: Filter::eq_arg(0, 0),
                order: Vec::new(),
                after: None,
                limit: None,
            },
            "(text)",
            "('k')",
        ),
    ];
    for (n, (plan, kinds, values)) in plans.into_iter().enumerate() {
        assert!(!matches!(Span::of(&THING, &plan), Span::Any), "{plan:?}");
        let sql = render::render(&THING, &plan, &linchpin_sql::names::Naming::default(), &[])
            .expect("a text")
            .sql;
        client
            .batch_execute(&format!("PREPARE plan_{n}{kinds} AS {sql}"))
            .await
            .expect("prepared");
        // An empty table without statistics.
        let plan: Vec<String> = client
            .query(&format!("EXPLAIN EXECUTE plan_{n}{values}"), &[])
            .await
            .expect("explained")
            .iter()
            .map(|row| row.get(0))
            .collect();
        let plan = plan.join("\n");
        assert!(
            plan.contains("Index")
                && !plan.contains("Seq Scan")
                && !plan.contains("Sort")
                && !plan.contains("Bitmap"),
            "{sql}\n{plan}"
        );
    }
    store.close().await;
}

/// The number of statements on a table that wait for a lock.
async fn waiting(store: &PostgresStore, table: &str) -> i64 {
    let blocked_count = "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE relname = $1 AND NOT granted";
    sqlx::query_scalar(blocked_count)
        .bind(table)
        .fetch_one(store.pool())
        .await
        .expect("counted")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_cannot_take_all_slots_for_long_reads() {
    static OTHER: EntityDesc = EntityDesc {
        storage_name: "conformance_others",
        ..entity("Other", &[])
    };
    let mut options = PostgresOptions::new(server::fresh_url());
    (options.scans, options.in_flight) = (2, 8);
    let store = Arc::new(PostgresStore::open(options).expect("opened"));
    create_tables(&*store, &[&THING, &OTHER])
        .await
        .expect("created");
    // The title has no index.
    let endless = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let brief = store
        .prepare(
            &OTHER,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    assert!(store.may_take_long(&endless));
    let read = |statement: &Arc<Statement>, name: &str| {
        let (store, statement) = (Arc::clone(&store), Arc::clone(statement));
        let mut rows = Rows::count();
        rows.caller = caller(name);
        async move {
            store
                .run(&statement, vec![Value::Text("x".to_owned())], rows)
                .await
                .map(|rows| rows.count)
                .map_err(|e| e.code())
        }
    };
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let greedy: Vec<_> = (0..3)
        .map(|_| tokio::spawn(read(&endless, "greedy")))
        .collect();
    // The caller has one slot: one of its reads runs, and the others wait for it.
    while waiting(&store, "conformance_things").await == 0 || store.read_slots.queue_left() > 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting(&store, "conformance_things").await, 1);
    Native::of(&brief)
        .expect("of this store")
        .short_reads
        .never();
    assert_eq!(
        read(&brief, "greedy").await,
        Err(linchpin_core::Code::Unavailable)
    );
    assert_eq!(read(&brief, "modest").await, Ok(0));
    // If the caller stops waiting, its statement is canceled, and the slot is free although the
    // table is still locked.
    for read in &greedy {
        read.abort();
    }
    while waiting(&store, "conformance_things").await > 0 || store.read_slots.callers() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&brief, "greedy").await, Ok(0));
    other.rollback().await.expect("undone");
    assert_eq!(read(&endless, "greedy").await, Ok(0));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_read_does_not_wait_for_long_reads() {
    static OTHER: EntityDesc = EntityDesc {
        storage_name: "conformance_others",
        ..entity("Other", &[])
    };
    let mut options = PostgresOptions::new(server::fresh_url());
    options.scans = 2;
    let store = Arc::new(PostgresStore::open(options).expect("opened"));
    create_tables(&*store, &[&THING, &OTHER])
        .await
        .expect("created");
    let endless = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let brief = store
        .prepare(
            &OTHER,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let read = |statement: &Arc<Statement>, name: &str| {
        let (store, statement) = (Arc::clone(&store), Arc::clone(statement));
        let mut rows = Rows::count();
        rows.caller = caller(name);
        async move {
            store
                .run(&statement, vec![Value::Text("x".to_owned())], rows)
                .await
                .map(|rows| rows.count)
                .map_err(|e| e.code())
        }
    };
    // The connections for attempts are opened by the first attempt.
    assert_eq!(read(&brief, "modest").await, Ok(0));
    while store.short_reads.connected() < 2 {
        tokio::task::yield_now().await;
    }
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let long: Vec<_> = ["one", "another"]
        .into_iter()
        .map(|name| tokio::spawn(read(&endless, name)))
        .collect();
    while waiting(&store, "conformance_things").await < 2 || store.read_slots.callers() < 2 {
        tokio::task::yield_now().await;
    }
    // Both connections for long reads are in use as long as the table is locked.
    for _ in 0..20 {
        assert_eq!(read(&brief, "modest").await, Ok(0));
    }
    // Each of the two callers has made one attempt. The callers are in different cells of the
    // history.
    assert_eq!(
        Native::of(&endless)
            .expect("of this store")
            .short_reads
            .missed(),
        2
    );
    other.rollback().await.expect("undone");
    for read in long {
        assert_eq!(read.await.expect("not aborted"), Ok(0));
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_short_read_frees_its_slot_after_the_server_ended_it() {
    let mut options = PostgresOptions::new(server::fresh_url());
    options.scans = 2;
    let store = Arc::new(PostgresStore::open(options).expect("opened"));
    create_tables(&*store, &[&THING]).await.expect("created");
    let endless = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let read = |name: &str| {
        let (store, statement) = (Arc::clone(&store), Arc::clone(&endless));
        let mut rows = Rows::count();
        rows.caller = caller(name);
        async move {
            store
                .run(&statement, vec![Value::Text("x".to_owned())], rows)
                .await
                .map(|rows| rows.count)
                .map_err(|e| e.code())
        }
    };
    assert_eq!(read("one").await, Ok(0));
    while store.short_reads.connected() < 2 {
        tokio::task::yield_now().await;
    }
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    // On a busy machine, the server can cancel the attempt before the test does. The read then
    // waits in a slot for long reads, and another caller tries again.
    for n in 0_u32.. {
        assert!(n < 500, "no attempt was canceled by the test");
        let call = tokio::spawn(read(&n.to_string()));
        while waiting(&store, "conformance_things").await == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        assert!(call.await.is_err());
        // The server cancels the statement after its time limit. The slot becomes free only after
        // that.
        let (short, long) = (store.short_reads.callers(), store.read_slots.callers());
        let waits = waiting(&store, "conformance_things").await;
        assert!(
            short + long >= usize::try_from(waits).unwrap_or_default(),
            "{waits} reads wait on the server, {short} and {long} slots are taken"
        );
        while store.short_reads.callers() + store.read_slots.callers() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting(&store, "conformance_things").await, 0);
        if short == 1 {
            break;
        }
    }
    other.rollback().await.expect("undone");
    assert_eq!(read("one").await, Ok(0));
    store.close().await;
}

/// The id of a caller.
fn caller(name: &str) -> Option<std::num::NonZeroU64> {
    let number = name
        .bytes()
        .fold(7_u64, |all, byte| all * 31 + u64::from(byte));
    std::num::NonZeroU64::new(number | 1)
}
