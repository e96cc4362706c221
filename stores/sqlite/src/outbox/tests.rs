//! Tests of the outbox of a file: sets of rows, leases, and rows of the first release.

use rusqlite::Connection;

use super::*;
use crate::SqliteOptions;
use linchpin_core::event::Entry;

const LEASE: Duration = Duration::from_secs(15);

/// Ignores all events.
struct IgnoreAll;

impl Committed for IgnoreAll {
    fn committed(&self, _: Vec<Arc<OutboxRow>>) {}
    fn lost(&self, _: &[Entry]) {}
}

struct Fixture {
    folder: tempfile::TempDir,
    store: SqliteStore,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder);
        let fixture = Self { folder, store };
        fixture.join(&["a", "b"]).await;
        fixture
    }

    async fn join(&self, consumers: &[&str]) {
        let joined = self.store.open(consumers, Arc::new(IgnoreAll));
        joined.await.expect("an outbox");
    }

    fn file(&self) -> Connection {
        Connection::open(self.folder.path().join("app.db")).expect("the file")
    }

    /// Writes rows as the first release did.
    fn write_rows(&self, count: usize) {
        for _ in 0..count {
            self.file()
                .execute(
                    "INSERT INTO linchpin_outbox (id, entity, record, at, event) VALUES (?, 'notes', '7', 0, ?)",
                    [
                        Uuid::new_v7().as_str(),
                        r#"{"name":"n","route":"r","actor":"system","request":"","payload":{"a":1}}"#,
                    ],
                )
                .expect("written");
        }
    }

    async fn waiting(&self, consumer: &str, taken: &[i64]) -> (Vec<i64>, u64) {
        let taken = set(taken);
        let waiting = self.store.waiting(consumer, &taken, &[], 9).await;
        let waiting = waiting.expect("rows");
        let seqs = waiting.rows.iter().map(|row| row.seq);
        (seqs.collect(), waiting.lost.map_or(0, |lost| lost.count))
    }

    async fn settle(&self, consumer: &str, done: &[i64]) {
        let settled = self.store.settle(consumer, &set(done)).await;
        settled.expect("settled");
    }
}

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(folder.path().join("app.db"))).expect("opened")
}

fn set(numbers: &[i64]) -> Numbers {
    numbers.iter().copied().collect()
}

async fn lead(store: &SqliteStore, consumer: &str) -> Option<i64> {
    store.lead(&[consumer], LEASE).await.expect("an answer")[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_can_be_settled_in_any_order() {
    let fixture = Fixture::new().await;
    fixture.write_rows(5);
    assert_eq!(fixture.waiting("a", &[]).await, (vec![1, 2, 3, 4, 5], 0));
    fixture.settle("a", &[2, 4]).await;
    assert_eq!(fixture.waiting("a", &[5]).await, (vec![1, 3], 0));
    fixture.settle("a", &[1, 5]).await;
    let (seq, had): (i64, String) = fixture
        .file()
        .query_row(
            "SELECT seq, had FROM linchpin_consumers WHERE name = 'a'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("a consumer");
    assert_eq!((seq, had.as_str()), (2, "4-5"));
    fixture.settle("a", &[3]).await;
    assert_eq!(fixture.waiting("a", &[]).await, (vec![], 0));
    assert_eq!(fixture.waiting("b", &[]).await.0.len(), 5);
    // The events of the first release are read.
    let waiting = fixture.store.waiting("b", &Numbers::NONE, &[], 1).await;
    let row = &waiting.expect("rows").rows[0];
    assert_eq!(row.events[0].event.payload["a"], 1);
    assert_eq!(row.events[0].event.record_id.as_deref(), Some("7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_first_release_get_new_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let file = Connection::open(folder.path().join("app.db")).expect("the file");
    file.execute_batch(
        "CREATE TABLE linchpin_outbox (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, entity TEXT NOT NULL, record TEXT, \
         at INTEGER NOT NULL, event TEXT NOT NULL) STRICT; \
         CREATE TABLE linchpin_consumers (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID; \
         INSERT INTO linchpin_consumers (name, seq) VALUES ('a', 2)",
    )
    .expect("tables");
    let fixture = Fixture { folder, store };
    fixture.write_rows(3);
    fixture.join(&["a"]).await;
    fixture.join(&["a"]).await;
    assert_eq!(fixture.waiting("a", &[]).await, (vec![3], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returning_consumer_receives_the_number_of_removed_rows() {
    let fixture = Fixture::new().await;
    fixture.write_rows(4);
    fixture.settle("a", &[1, 2, 3, 4]).await;
    fixture.settle("b", &[1]).await;
    let later = Timestamp::parse("2999-01-01T00:00:00Z").expect("an instant");
    // The app has only the first consumer now. The last row is never removed.
    let removed = fixture.store.prune(&["a"], later, later, 9).await;
    assert_eq!(removed.expect("pruned"), 3);
    for _ in 0..2 {
        assert_eq!(fixture.waiting("b", &[]).await, (vec![4], 2));
    }
    // Rows that the consumer has already taken do not change the number of lost rows.
    assert_eq!(fixture.waiting("b", &[4]).await, (vec![], 2));
    let lost = Lost { count: 2, until: 3 };
    fixture
        .store
        .lost_reported("b", lost)
        .await
        .expect("a report");
    assert_eq!(
        fixture.waiting("b", &[]).await,
        (vec![4], 0),
        "a confirmed loss is not returned again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_leads_a_consumer_and_the_next_has_a_greater_fencing_number() {
    let fixture = Fixture::new().await;
    let first = lead(&fixture.store, "a").await.expect("it leads");
    assert_eq!(lead(&fixture.store, "a").await, Some(first), "renewed");
    let other = open(&fixture.folder);
    other
        .open(&["a"], Arc::new(IgnoreAll))
        .await
        .expect("an outbox");
    assert_eq!(lead(&other, "a").await, None, "another process leads");
    fixture.store.resign(&["a"]).await.expect("resigned");
    let second = lead(&other, "a").await.expect("it leads");
    assert!(second > first);
    assert_eq!(lead(&fixture.store, "a").await, None);
    // The lease of `other` ends.
    let end = "UPDATE linchpin_consumers SET until = 0 WHERE name = 'a'";
    fixture.file().execute(end, []).expect("ended");
    let third = lead(&fixture.store, "a").await.expect("it leads");
    assert!(third > second);
    // The process that holds the lock file ends without giving up its lease. The next process does
    // not wait for the end of the lease.
    assert_eq!(lead(&other, "a").await, None);
    drop(fixture.store);
    assert_eq!(lead(&other, "a").await, Some(third + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_parked_events_are_removed() {
    let fixture = Fixture::new().await;
    fixture.write_rows(1);
    let waiting = fixture.store.waiting("a", &Numbers::NONE, &[], 1).await;
    let parked = Parked {
        event: waiting.expect("rows").rows[0].events[0].clone(),
        error: "busy".to_owned(),
        at: Timestamp::from_millis(5),
    };
    for _ in 0..2 {
        fixture.store.park("a", &parked).await.expect("parked");
    }
    let count = || -> i64 {
        let count = "SELECT count(*) FROM linchpin_parked WHERE error = 'busy'";
        let file = fixture.file();
        file.query_row(count, [], |row| row.get(0))
            .expect("a number")
    };
    assert_eq!(count(), 1);
    let stored: String = fixture
        .file()
        .query_row("SELECT event FROM linchpin_parked", [], |row| row.get(0))
        .expect("a parked event");
    assert_eq!(stored, parked.event.text());
    assert!(stored.contains("\"route\""), "{stored}");
    for (before, left) in [(5, 1), (6, 0)] {
        let (now, before) = (Timestamp::from_millis(0), Timestamp::from_millis(before));
        let pruned = fixture.store.prune(&["a"], now, before, 9).await;
        assert_eq!((pruned.expect("pruned"), count()), (0, left));
    }
}
