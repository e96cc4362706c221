//! Tests of combined calls: each call gets its own record, independent of the other calls.

use super::tests::server;
use super::*;
use linchpin_conformance::THING;
use linchpin_core::Timestamp;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::Projection;
use linchpin_core::store::create_tables;

/// A store with one connection for reads, and the records `k0` to `k{count - 1}`.
async fn store(count: usize) -> Arc<PostgresStore> {
    let mut options = PostgresOptions::new(server::fresh_url());
    options.readers = 1;
    let store = Arc::new(PostgresStore::open(options).expect("opened"));
    create_tables(&*store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    for i in 0..count {
        let mut record = vec![Value::Null; THING.fields.len()];
        (record[0], record[7]) = (key(i), Value::Text("draft".to_owned()));
        (record[3], record[4]) = (Value::Int(i as i64), Value::Float(i as f64 / 2.0));
        (record[5], record[6]) = (
            Value::Bool(i % 2 == 0),
            Value::Date(Timestamp::from_millis(i as i64)),
        );
        record[8] = Value::Strings(vec![format!("tag {i}")]);
        store
            .run(&insert, record, Rows::count())
            .await
            .expect("inserted");
    }
    store
}

fn key(i: usize) -> Value {
    Value::Text(format!("k{i}"))
}

fn by_key(filter: Filter) -> Plan {
    Plan::Select {
        filter: Filter::eq_arg(0, 0).and(filter),
        order: Vec::new(),
        after: None,
        limit: None,
    }
}

/// Waits until a condition is true.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Locks the table, starts one read, then all calls, and unlocks when all of them wait.
async fn run_while_locked(
    store: &Arc<PostgresStore>,
    plan: Plan,
    rows: &Rows,
    calls: Vec<Vec<Value>>,
) -> Vec<Result<Rows>> {
    let statement = store.prepare(&THING, plan).expect("a plan");
    let gather = Native::of(&statement)
        .expect("of this store")
        .gather
        .as_ref()
        .expect("a statement of one record");
    gather.unpaced();
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let start = |args: &Vec<Value>| {
        let (store, statement, args, rows) = (
            Arc::clone(store),
            Arc::clone(&statement),
            args.clone(),
            rows.clone(),
        );
        tokio::spawn(async move { store.run(&statement, args, rows).await })
    };
    // One call runs by itself, one is a separate group, all others wait.
    let first = start(&calls[0]);
    until(|| gather.under_way() == (1, 0)).await;
    let second = start(&calls[1]);
    until(|| gather.under_way() == (1, 1)).await;
    let others: Vec<_> = calls[2..].iter().map(start).collect();
    until(|| gather.waiting() == calls.len() - 2).await;
    other.rollback().await.expect("undone");
    let mut answers = vec![
        first.await.expect("no panic"),
        second.await.expect("no panic"),
    ];
    for call in others {
        answers.push(call.await.expect("no panic"));
    }
    assert_eq!(
        (gather.waiting(), gather.combined()),
        (0, 1 + (calls.len() - 2).div_ceil(64)),
        "combined statements for all waiting calls"
    );
    until(|| gather.under_way() == (0, 0)).await;
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_calls_gets_its_own_record() {
    let store = store(150).await;
    // Every second key does not exist, and one is requested twice.
    let calls: Vec<Vec<Value>> = (0..200)
        .map(|i| vec![key(if i == 7 { 8 } else { i * 2 })])
        .collect();
    let json = Rows::json(&Arc::new(Projection::of(&THING, |_, _| true)));
    let alone = store.prepare(&THING, by_key(Filter::TRUE)).expect("a plan");
    let answers = run_while_locked(&store, by_key(Filter::TRUE), &json, calls.clone()).await;
    let mut found = 0;
    for (call, rows) in calls.into_iter().zip(answers) {
        let rows = rows.expect("an answer");
        let own = store
            .run(&alone, call.clone(), json.clone())
            .await
            .expect("an answer");
        assert_eq!(
            (rows.count, String::from_utf8_lossy(&rows.json)),
            (own.count, String::from_utf8_lossy(&own.json)),
            "{call:?}"
        );
        found += rows.count;
    }
    assert_eq!(found, 75);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gathered_call_keeps_its_own_condition() {
    let store = store(40).await;
    let arg = |index| {
        Operand::One(Source::Arg {
            index,
            nullable: false,
        })
    };
    let filter = Filter::cond(3, Op::Gte, arg(1))
        .and(Filter::cond(4, Op::Lt, arg(2)))
        .and(Filter::cond(5, Op::Eq, arg(3)))
        .and(Filter::cond(6, Op::Lte, arg(4)))
        .and(Filter::cond(
            7,
            Op::Ne,
            Operand::One(Source::Value(Value::Text("gone".to_owned()))),
        ));
    let calls: Vec<Vec<Value>> = (0..40)
        .map(|i| {
            let number = i as i64;
            let args = [
                key(i),
                Value::Int(number),
                Value::Float(number as f64),
                Value::Bool(true),
                Value::Date(Timestamp::from_millis(20)),
            ];
            args.to_vec()
        })
        .collect();
    // The even numbers up to 20, except 0, because its half is not less than it.
    let answers = run_while_locked(
        &store,
        Plan::Exists {
            filter: Filter::eq_arg(0, 0).and(filter),
        },
        &Rows::count(),
        calls,
    )
    .await;
    for (i, rows) in answers.into_iter().enumerate() {
        assert_eq!(
            rows.expect("an answer").count,
            usize::from(i % 2 == 0 && (1..=20).contains(&i)),
            "{i}"
        );
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_does_not_fail_the_other_calls_of_its_group() {
    let store = store(10).await;
    let mut calls: Vec<Vec<Value>> = (0..10).map(|i| vec![key(i)]).collect();
    // The server cannot store this text.
    calls[5] = vec![Value::Text("a\0b".to_owned())];
    let answers =
        run_while_locked(&store, by_key(Filter::TRUE), &Rows::records(&THING), calls).await;
    for (i, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(rows) => assert!(i != 5 && rows.records[0][0] == key(i), "{i}"),
            Err(error) => assert_eq!((i, error.code()), (5, linchpin_core::Code::Internal)),
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_does_not_cancel_its_group() {
    let store = store(4).await;
    let statement = store.prepare(&THING, by_key(Filter::TRUE)).expect("a plan");
    let gather = Native::of(&statement)
        .expect("of this store")
        .gather
        .as_ref()
        .expect("a statement of one record");
    gather.unpaced();
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let start = |i: usize| {
        let (store, statement) = (Arc::clone(&store), Arc::clone(&statement));
        tokio::spawn(async move {
            store
                .run(&statement, vec![key(i)], Rows::records(&THING))
                .await
        })
    };
    let first = start(0);
    until(|| gather.under_way() == (1, 0)).await;
    let second = start(0);
    until(|| gather.under_way() == (1, 1)).await;
    let (dropped, waiting) = (start(1), start(2));
    until(|| gather.waiting() == 2).await;
    dropped.abort();
    assert!(dropped.await.is_err());
    // The running call and the running group are dropped, too.
    for call in [first, second] {
        call.abort();
        assert!(call.await.is_err());
    }
    other.rollback().await.expect("undone");
    assert_eq!(
        waiting.await.expect("no panic").expect("an answer").records[0][0],
        key(2)
    );
    assert_eq!(
        start(3)
            .await
            .expect("no panic")
            .expect("an answer")
            .records[0][0],
        key(3)
    );
    until(|| gather.under_way() == (0, 0)).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_call_does_not_delay_the_others() {
    let store = store(4).await;
    let statement = store.prepare(&THING, by_key(Filter::TRUE)).expect("a plan");
    let gather = Native::of(&statement)
        .expect("of this store")
        .gather
        .as_ref()
        .expect("a statement of one record");
    let read = |i: usize| store.run(&statement, vec![key(i)], Rows::records(&THING));
    // The read is polled once and then not again. If this thread pauses, the answer may have
    // arrived already; then another read is started.
    let mut tries = 0;
    let idle = loop {
        let mut started = Box::pin(async { read(0).await });
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(started.as_mut().poll(cx)));
        if first.await.is_pending() && gather.under_way() == (1, 0) {
            break started;
        }
        tries += 1;
        assert!(tries < 1_000, "every read was answered at its first poll");
    };
    for i in 1..4 {
        assert_eq!(read(i).await.expect("an answer").records[0][0], key(i));
    }
    let all = futures_util::future::join_all((0..4).map(|i| async move { read(i).await })).await;
    for (i, rows) in all.into_iter().enumerate() {
        assert_eq!(rows.expect("an answer").records[0][0], key(i));
    }
    assert_eq!(idle.await.expect("an answer").records[0][0], key(0));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_count_as_statements_in_progress() {
    let store = store(2).await;
    let statement = store.prepare(&THING, by_key(Filter::TRUE)).expect("a plan");
    let gather = Native::of(&statement)
        .expect("of this store")
        .gather
        .as_ref()
        .expect("a statement of one record");
    gather.unpaced();
    let mut other = store.pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE conformance_things")
        .execute(&mut *other)
        .await
        .expect("locked");
    let start = || {
        let (store, statement) = (Arc::clone(&store), Arc::clone(&statement));
        tokio::spawn(async move { store.run(&statement, vec![key(1)], Rows::count()).await })
    };
    let free = store.reads.free();
    let mut calls = vec![start()];
    until(|| gather.under_way() == (1, 0)).await;
    calls.push(start());
    until(|| gather.under_way() == (1, 1)).await;
    calls.extend((0..10).map(|_| start()));
    until(|| gather.waiting() == 10).await;
    for call in calls {
        call.abort();
        drop(call.await);
    }
    // The callers have stopped waiting, but their statements still run. Only the call that ran by
    // itself has released its permit.
    assert_eq!(free - store.reads.free(), 11);
    other.rollback().await.expect("undone");
    until(|| gather.under_way() == (0, 0) && store.reads.free() == free).await;
    store.close().await;
}
