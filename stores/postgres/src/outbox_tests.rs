//! Tests of the outbox: commits in another order than the numbers, rollbacks, and the choice of the
//! process that delivers events.

use super::tests::server;
use super::*;
use linchpin_core::Timestamp;
use linchpin_core::event::{Entry, OutboxRow};
use linchpin_core::store::{Committed, Lost, Numbers, Parked};

const LEASE: Duration = Duration::from_secs(15);

/// Ignores all events.
struct IgnoreAll;

impl Committed for IgnoreAll {
    fn committed(&self, _: Vec<Arc<OutboxRow>>) {}
    fn lost(&self, _: &[Entry]) {}
}

fn set(numbers: &[i64]) -> Numbers {
    numbers.iter().copied().collect()
}

async fn lead(store: &PostgresStore, consumer: &str) -> Option<i64> {
    let outbox = store.outbox().expect("an outbox");
    outbox.lead(&[consumer], LEASE).await.expect("an answer")[0]
}

/// Writes an event like a transaction of the store: first a change, then the event.
async fn write_event(transaction: &mut sqlx::PgConnection, record: &str) -> i64 {
    sqlx::query("INSERT INTO records (id) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(record)
        .execute(&mut *transaction)
        .await
        .expect("changed");
    sqlx::query_scalar(
        "INSERT INTO linchpin_outbox (id, entity, record, at, event) VALUES (gen_random_uuid(), 'records', $1, now(), '{}') RETURNING seq",
    )
    .bind(record)
    .fetch_one(transaction)
    .await
    .expect("recorded")
}

struct Fixture {
    url: String,
    store: PostgresStore,
}

impl Fixture {
    async fn new() -> Self {
        let url = server::fresh_url();
        let store = PostgresStore::open(PostgresOptions::new(url.clone())).expect("opened");
        sqlx::query("CREATE TABLE records (id TEXT PRIMARY KEY)")
            .execute(store.pool())
            .await
            .expect("a table");
        store
            .outbox()
            .expect("an outbox")
            .open(&["a", "b"], Arc::new(IgnoreAll))
            .await
            .expect("an outbox");
        Self { url, store }
    }

    async fn begin(&self) -> sqlx::Transaction<'static, sqlx::Postgres> {
        self.store.pool().begin().await.expect("a transaction")
    }

    async fn committed(&self, record: &str) -> i64 {
        let mut transaction = self.begin().await;
        let seq = write_event(&mut transaction, record).await;
        transaction.commit().await.expect("committed");
        seq
    }

    async fn waiting(&self, consumer: &str, processed: &[i64], limit: usize) -> Vec<i64> {
        let waiting = self
            .store
            .outbox()
            .expect("an outbox")
            .waiting(consumer, &set(processed), &[], limit)
            .await;
        let rows = waiting.expect("an answer").rows;
        rows.iter().map(|row| row.seq).collect()
    }

    async fn settle(&self, consumer: &str, processed: &[i64]) {
        self.store
            .outbox()
            .expect("an outbox")
            .settle(consumer, &set(processed))
            .await
            .expect("settled");
    }

    async fn had(&self, consumer: &str) -> String {
        let had = sqlx::query_scalar("SELECT had::text FROM linchpin_consumers WHERE name = $1")
            .bind(consumer);
        had.fetch_one(self.store.pool()).await.expect("a consumer")
    }

    /// Settles an empty set repeatedly until the set of processed numbers has this value. Open
    /// transactions of other tests on the server may delay this.
    async fn wait_for_set(&self, consumer: &str, set: &str) {
        let end = tokio::time::Instant::now() + Duration::from_mins(1);
        while self.had(consumer).await != set {
            assert!(
                tokio::time::Instant::now() < end,
                "{} is not {set}",
                self.had(consumer).await
            );
            self.settle(consumer, &[]).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_delivered() {
    let fixture = Fixture::new().await;
    let mut late = fixture.begin().await;
    let first = write_event(&mut late, "late").await;
    let second = fixture.committed("soon").await;
    assert!(first < second, "numbers ascend");
    // Delivery does not wait for the open transaction.
    assert_eq!(fixture.waiting("a", &[], 9).await, [second]);
    assert!(fixture.waiting("a", &[second], 9).await.is_empty());
    // The hole stays open as long as it can be filled, even after several calls.
    for _ in 0..5 {
        fixture.settle("a", &[second]).await;
        assert_eq!(
            fixture.had("a").await,
            format!("{{[{second},{})}}", second + 1)
        );
    }
    let third = fixture.committed("after").await;
    fixture.settle("a", &[third]).await;
    late.commit().await.expect("committed");
    assert_eq!(fixture.waiting("a", &[], 9).await, [first]);
    // The row is committed but not processed: its number must not be added when holes are closed.
    for _ in 0..5 {
        fixture.settle("a", &[]).await;
        assert_eq!(fixture.waiting("a", &[], 9).await, [first]);
    }
    fixture.settle("a", &[first]).await;
    assert_eq!(
        fixture.had("a").await,
        format!("{{[{first},{})}}", third + 1)
    );
    assert_eq!(
        fixture.waiting("b", &[], 9).await,
        [first, second, third],
        "each consumer has its own set of processed numbers"
    );
    assert_eq!(fixture.waiting("b", &[first], 1).await, [second]);
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_rows_leave_no_gap() {
    let fixture = Fixture::new().await;
    let mut processed = Vec::new();
    for round in 0..3 {
        let mut undone = fixture.begin().await;
        write_event(&mut undone, "undone").await;
        undone.rollback().await.expect("undone");
        processed.push(fixture.committed(&format!("kept {round}")).await);
    }
    assert_eq!(fixture.waiting("a", &[], 9).await, processed);
    fixture.settle("a", &processed).await;
    fixture
        .wait_for_set("a", &format!("{{[1,{})}}", processed[2] + 1))
        .await;
    assert!(fixture.waiting("a", &[], 9).await.is_empty());
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_record_are_in_the_order_of_its_changes() {
    let fixture = Fixture::new().await;
    // `early` gets its transaction id before `late` begins, and changes the record after it.
    let mut early = fixture.begin().await;
    write_event(&mut early, "other").await;
    let mut late = fixture.begin().await;
    let change =
        "INSERT INTO records (id) VALUES ('one') ON CONFLICT (id) DO UPDATE SET id = excluded.id";
    sqlx::query(change)
        .execute(&mut *late)
        .await
        .expect("changed");
    let first = write_event(&mut late, "one").await;
    let early_pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *early)
        .await
        .expect("a number");
    let blocked = tokio::spawn(async move {
        sqlx::query(change)
            .execute(&mut *early)
            .await
            .expect("changed, once the record is free");
        let second = write_event(&mut early, "one").await;
        early.commit().await.expect("committed");
        second
    });
    // Waits until `early` is blocked by `late`.
    let blocked_count = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted";
    while sqlx::query_scalar::<_, i64>(blocked_count)
        .bind(early_pid)
        .fetch_one(&mut *late)
        .await
        .expect("counted")
        == 0
    {
        tokio::task::yield_now().await;
    }
    late.commit().await.expect("committed");
    let second = blocked.await.expect("no panic");
    let waiting = fixture.waiting("a", &[], 9).await;
    assert!(waiting.ends_with(&[first, second]), "{waiting:?}");
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_leads_a_consumer_and_the_next_has_a_greater_fencing_number() {
    let fixture = Fixture::new().await;
    let first = lead(&fixture.store, "a").await.expect("it leads");
    assert_eq!(lead(&fixture.store, "a").await, Some(first), "renewed");
    let other = PostgresStore::open(PostgresOptions::new(fixture.url.clone())).expect("opened");
    assert_eq!(lead(&other, "a").await, None, "another process leads");
    assert!(
        lead(&other, "b").await.is_some(),
        "this consumer had no leader"
    );
    assert_eq!(lead(&fixture.store, "b").await, None);
    // The leader resigns; the next leader has a greater number.
    let outbox = fixture.store.outbox().expect("an outbox");
    outbox.resign(&["a"]).await.expect("resigned");
    let second = lead(&other, "a").await.expect("it leads");
    assert!(second > first);
    // The connection of the leader ends, as if its process was killed. It is replaced before its
    // lease ends.
    other.close().await;
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    let third = loop {
        if let Some(fence) = lead(&fixture.store, "a").await {
            break fence;
        }
        assert!(
            tokio::time::Instant::now() < end,
            "another process takes over"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(third > second);
    // A leader that does not answer, but whose connection is open, is replaced when its lease ends.
    let other = PostgresStore::open(PostgresOptions::new(fixture.url.clone())).expect("opened");
    assert_eq!(lead(&other, "a").await, None);
    sqlx::query("UPDATE linchpin_consumers SET until = now() - interval '1 second'")
        .execute(other.pool())
        .await
        .expect("ended");
    assert_eq!(lead(&other, "a").await, Some(third + 1));
    assert_eq!(lead(&fixture.store, "a").await, None);
    other.close().await;
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returning_consumer_receives_the_number_of_removed_rows() {
    let fixture = Fixture::new().await;
    let mut all = Vec::new();
    for record in ["one", "two", "three", "four"] {
        all.push(fixture.committed(record).await);
    }
    fixture.settle("a", &all).await;
    fixture.settle("b", &all[..1]).await;
    let outbox = fixture.store.outbox().expect("an outbox");
    let later = Timestamp::parse("2999-01-01T00:00:00Z").expect("an instant");
    // The app has only the first consumer now.
    assert_eq!(
        outbox.prune(&["a"], later, later, 3).await.expect("pruned"),
        3
    );
    let lost = Lost { count: 2, until: 0 };
    for _ in 0..2 {
        let waiting = outbox
            .waiting("b", &Numbers::NONE, &[], 9)
            .await
            .expect("rows");
        let left: Vec<i64> = waiting.rows.iter().map(|row| row.seq).collect();
        assert_eq!((waiting.lost, left), (Some(lost), vec![all[3]]));
    }
    outbox.lost_reported("b", lost).await.expect("a report");
    let waiting = outbox
        .waiting("b", &Numbers::NONE, &[], 9)
        .await
        .expect("rows");
    assert_eq!(waiting.lost, None, "a confirmed loss is not returned again");
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_known_rows_are_not_read_again() {
    let fixture = Fixture::new().await;
    let (one, two) = (
        fixture.committed("one").await,
        fixture.committed("two").await,
    );
    let known = [Arc::new(OutboxRow::new(one, Vec::new()))];
    let outbox = fixture.store.outbox().expect("an outbox");
    let waiting = outbox
        .waiting("a", &Numbers::NONE, &known, 9)
        .await
        .expect("rows");
    assert!(Arc::ptr_eq(&waiting.rows[0], &known[0]));
    assert_eq!(waiting.rows[1].seq, two);
    assert!(
        waiting.rows[1].unreadable.is_some(),
        "the test wrote no event"
    );
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_removed_after_all_consumers_received_them() {
    let fixture = Fixture::new().await;
    let mut all = Vec::new();
    for record in ["one", "two", "three"] {
        all.push(fixture.committed(record).await);
    }
    let outbox = fixture.store.outbox().expect("an outbox");
    let later = Timestamp::parse("2999-01-01T00:00:00Z").expect("an instant");
    let earlier = Timestamp::parse("2000-01-01T00:00:00Z").expect("an instant");
    fixture.settle("a", &all).await;
    assert_eq!(
        outbox
            .prune(&["a", "b"], later, later, 9)
            .await
            .expect("pruned"),
        0,
        "consumer b has not processed them"
    );
    fixture.settle("b", &all[..2]).await;
    assert_eq!(
        outbox
            .prune(&["a", "b"], earlier, earlier, 9)
            .await
            .expect("pruned"),
        0,
        "too young"
    );
    assert_eq!(
        outbox
            .prune(&["a", "b", "nobody"], later, later, 9)
            .await
            .expect("pruned"),
        0,
        "an unknown consumer has processed nothing"
    );
    assert_eq!(
        outbox
            .prune(&["a", "b"], later, later, 1)
            .await
            .expect("pruned"),
        1
    );
    assert_eq!(
        outbox
            .prune(&["a", "b"], later, later, 9)
            .await
            .expect("pruned"),
        1
    );
    assert_eq!(fixture.waiting("b", &[], 9).await, all[2..]);
    // A new consumer gets only events that are written after its start.
    let again = outbox.open(&["a", "new"], Arc::new(IgnoreAll));
    again.await.expect("opened again");
    assert!(fixture.waiting("new", &[], 9).await.is_empty());
    let four = fixture.committed("four").await;
    assert_eq!(fixture.waiting("new", &[], 9).await, [four]);
    fixture.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_another_application_are_refused() {
    let store = PostgresStore::open(PostgresOptions::new(server::fresh_url())).expect("opened");
    sqlx::query("CREATE TABLE linchpin_outbox (seq TEXT)")
        .execute(store.pool())
        .await
        .expect("a table");
    let error = store
        .outbox()
        .expect("an outbox")
        .open(&["a"], Arc::new(IgnoreAll))
        .await
        .expect_err("another shape")
        .to_string();
    assert!(error.contains("linchpin_outbox"), "{error}");
    store.close().await;
}

/// An event with fields beyond its payload is one JSON object in both tables. Otherwise the
/// consumer could not process the next events.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_of_another_process_keeps_its_json() {
    let fixture = Fixture::new().await;
    let event = r#"{"name":"records.created","route":"create","actor":"user","request":"r","of":"after","beyond":{"secret":true},"payload":{"id":"x"}}"#;
    sqlx::query(
        "INSERT INTO linchpin_outbox (id, entity, record, at, event) VALUES (gen_random_uuid(), 'records', 'x', now(), $1::json)",
    )
    .bind(event)
    .execute(fixture.store.pool())
    .await
    .expect("recorded");
    let outbox = fixture.store.outbox().expect("an outbox");
    let waiting = outbox.waiting("a", &Numbers::NONE, &[], 1).await;
    let parked = Parked {
        event: waiting.expect("rows").rows[0].events[0].clone(),
        error: "busy".to_owned(),
        at: Timestamp::from_millis(5),
    };
    outbox.park("a", &parked).await.expect("parked");
    let stored: String = sqlx::query_scalar("SELECT event::text FROM linchpin_parked")
        .fetch_one(fixture.store.pool())
        .await
        .expect("a parked event");
    assert_eq!(stored, event);
}
