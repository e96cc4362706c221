//! Tests of instances that start on Postgres while a migration runs.

use std::pin::pin;
use std::time::Duration;

use linchpin_migrate::{Exit, Mode, Options, Phase, SchemaCheck, start};
use tokio_postgres::Client;

use crate::locks::{changes, install_and_fill, new_session};
use crate::support::{chain_with, options};

/// Waits until an index of the table is under construction.
async fn wait_for_index_build(watcher: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity a, pg_index i \
               WHERE i.indrelid = 'users'::regclass AND NOT i.indisvalid \
               AND a.datname = current_database() AND a.wait_event_type = 'Lock' \
               AND a.query LIKE 'CREATE INDEX CONCURRENTLY%'";
    while watcher
        .query_one(sql, &[])
        .await
        .expect("a row")
        .get::<_, i64>(0)
        == 0
    {}
}

/// An older transaction delays the build of an index. During the build, an instance of the earlier
/// binary starts, and an instance of the later binary is refused. Then the connection is lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_index_build_lets_earlier_instances_start_and_is_repeated() {
    let database = install_and_fill("users").await;
    let [first, second] = changes("users");
    let (one, two) = (
        chain_with(std::slice::from_ref(&first)),
        chain_with(&[first, second]),
    );
    let (holder, watcher) = (new_session(&database).await, new_session(&database).await);
    let read = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    let expand_slowly = Options {
        phase: Some(Phase::Expand),
        index_wait: Duration::from_mins(1),
        ..options()
    };
    let starts = async |of: &linchpin_migrate::Chain| {
        let declared = database.declared(of);
        let check = SchemaCheck::Error;
        start(&*database.store, (of, &declared), Mode::Production, check).await
    };

    holder.batch_execute(read).await.expect("read");
    let mut run = pin!(database.run(&two, &expand_slowly));
    tokio::select! {
        done = &mut run => panic!("{done:?}"),
        () = wait_for_index_build(&watcher) => {}
    }
    let serving = starts(&one)
        .await
        .unwrap_or_else(|refusal| panic!("{}", refusal.text()));
    serving.release(&*database.store).await.expect("stopped");
    let refusal = starts(&two).await.expect_err("it is not expanded");
    assert_eq!(refusal.exit, Exit::Refused, "{}", refusal.text());
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%'";
    watcher.query(cut, &[]).await.expect("cut off");
    let refusal = run.await.expect_err("the connection is lost");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("target_unreachable", Exit::Target)
    );
    let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    assert_eq!(database.number(invalid).await, 1);
    // The earlier binary may start although the unfinished index still exists.
    let serving = starts(&one)
        .await
        .unwrap_or_else(|refusal| panic!("{}", refusal.text()));
    serving.release(&*database.store).await.expect("stopped");

    holder.batch_execute("COMMIT").await.expect("ended");
    database.apply_all(&two).await;
    assert_eq!(database.number(invalid).await, 0);
    let serving = starts(&two)
        .await
        .unwrap_or_else(|refusal| panic!("{}", refusal.text()));
    serving.release(&*database.store).await.expect("stopped");
}

/// A transaction closes the window while an instance starts. The instance waits for the end of the
/// transaction, and is then refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_waits_while_the_window_moves() {
    let database = install_and_fill("users").await;
    let [first, _] = changes("users");
    let one = chain_with(&[first]);
    let (runner, watcher) = (new_session(&database).await, new_session(&database).await);
    let close = "BEGIN; UPDATE linchpin_schema SET min_seq = 2, max_seq = 2";
    runner.batch_execute(close).await.expect("closed");
    let waits = async {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock'";
        while watcher
            .query_one(sql, &[])
            .await
            .expect("a row")
            .get::<_, i64>(0)
            == 0
        {}
    };
    let declared = database.declared(&one);
    let (store, mode) = (&*database.store, Mode::Production);
    let mut started = pin!(start(store, (&one, &declared), mode, SchemaCheck::Error));
    tokio::select! {
        started = &mut started => panic!("{started:?}"),
        () = waits => {}
    }
    runner.batch_execute("COMMIT").await.expect("committed");
    let refusal = started.await.expect_err("it is closed");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("window_moved", Exit::Refused)
    );
    assert!(database.ledger().await.instances.is_empty());
}
