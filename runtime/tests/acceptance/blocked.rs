//! PostgreSQL: another program locks records for a long time. Calls that need these records wait;
//! other calls do not.

#![allow(missing_docs)] // test entities

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use linchpin::prelude::*;
use linchpin::store::Store;
use linchpin::store::postgres::{PostgresOptions, PostgresStore};
use linchpin::{Cx, Result};
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use crate::server::{Reply, Server};

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Stage {
    Asked,
    Seated,
    Waiting,
}

/// A seat of a restaurant with a unique place.
#[entity(unique(place), routes(auth = none, update(idempotent)))]
#[derive(Clone, Debug)]
pub struct Seat {
    #[field(primary)]
    pub id: String,
    pub place: String,
    #[field(default = Stage::Asked)]
    pub stage: Stage,
    #[field(default = 0)]
    pub guests: i64,
}

#[operation(kind = "transition", field = stage, from = Stage::Asked, to = one_of([Stage::Seated, Stage::Waiting], by = seated))]
pub const SIT: Operation<Seat>;

#[allow(clippy::unused_async)] // choosers are async
async fn seated(call: ChooserCall<Seat>) -> Result<Stage> {
    Ok(if call.record().guests == 0 {
        Stage::Seated
    } else {
        Stage::Waiting
    })
}

static HOUSE: Package = package!(name = "house", entities = [entity(Seat, [SIT])]);

async fn house() -> Server {
    let s = Server::postgres(&HOUSE).await;
    for id in 0..60 {
        let reply = s
            .post(
                "/seats",
                json!({"id": format!("s{id}"), "place": format!("p{id}")}),
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    s
}

/// Another program that locks some seats.
struct Holder {
    store: PostgresStore,
    transaction: sqlx::Transaction<'static, sqlx::Postgres>,
}

impl Holder {
    async fn of(s: &Server, seats: &[&str]) -> Self {
        let store = PostgresStore::open(PostgresOptions::new(s.url())).unwrap();
        let mut transaction = store.pool().begin().await.unwrap();
        sqlx::query("SELECT id FROM seats WHERE id = ANY($1) FOR UPDATE")
            .bind(seats)
            .execute(&mut *transaction)
            .await
            .unwrap();
        Self { store, transaction }
    }

    /// Waits until at least one statement waits for the lock.
    async fn wait_for_waiters(&self) {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while sqlx::query_scalar::<_, i64>(waiting)
            .fetch_one(self.store.pool())
            .await
            .unwrap()
            == 0
        {
            tokio::task::yield_now().await;
        }
    }

    async fn release(self) {
        self.transaction.rollback().await.unwrap();
        self.store.close().await;
    }
}

/// Runs `blocked_calls`, which need locked seats, and `others`, which do not. The `others` must
/// finish before the seats are unlocked. Returns the results of `blocked_calls`, and the duration
/// of `others`.
async fn calls_during_lock<T>(
    holder: Holder,
    blocked_calls: impl Future<Output = T>,
    others: impl Future<Output = ()>,
) -> (T, Duration) {
    let free = Notify::new();
    let others = async {
        holder.wait_for_waiters().await;
        let began = Instant::now();
        others.await;
        free.notify_one();
        let took = began.elapsed();
        holder.release().await;
        took
    };
    let (results, took) = tokio::join!(blocked_calls, others);
    free.notified().await;
    (results, took)
}

async fn move_to(s: &Server, id: &str, place: String) -> Reply {
    s.patch(&format!("/seats/{id}"), json!({"place": place}))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_of_one_record_is_written_while_others_wait_for_another() {
    let s = house().await;
    // Many calls on one seat, and one call on many seats.
    let held: Vec<String> = (0..20).map(|i| format!("s{i}")).collect();
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    let holder = Holder::of(&s, &held).await;
    let wants = join_all((0..40).map(|i| {
        let (s, id) = (
            &s,
            if i < 20 {
                "s0".to_owned()
            } else {
                format!("s{}", i - 20)
            },
        );
        async move { move_to(s, &id, format!("q{i}")).await.status }
    }));
    let others = async {
        for i in 0..20 {
            let reply = move_to(&s, &format!("s{}", 40 + i), format!("r{i}")).await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
    };
    let (statuses, took) = calls_during_lock(holder, wants, others).await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(
        took < Duration::from_secs(4),
        "twenty writes of other records took {took:?}"
    );
}

/// Internal transactions hold no connection while they wait for a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_calls_hold_no_connection() {
    let s = house().await;
    let seats = s.running().adapter::<Seat>().unwrap();
    for kind in ["idempotent", "chosen"] {
        let holder = Holder::of(&s, &["s0", "s1"]).await;
        let wants = join_all((0..12).map(|i| {
            let s = &s;
            let headers = [
                ("content-type", "application/json".to_owned()),
                ("idempotency-key", format!("k{i}")),
            ];
            async move {
                let headers: Vec<(&str, &str)> = headers
                    .iter()
                    .map(|(name, value)| (*name, &**value))
                    .collect();
                match kind {
                    "idempotent" => {
                        s.raw(
                            "PATCH",
                            "/seats/s0",
                            &headers,
                            &json!({"guests": i}).to_string(),
                        )
                        .await
                        .status
                    }
                    _ => s.post("/seats/s1/sit", json!({})).await.status,
                }
            }
        }));
        let others = async {
            for guests in 0..3 {
                let cx = Cx::system("test");
                let patch = SeatPatch {
                    guests: Some(guests),
                    ..Default::default()
                };
                cx.transaction(async |cx| seats.update(cx, "s50", patch, None).await.map(drop))
                    .await
                    .unwrap();
            }
        };
        let (statuses, took) = calls_during_lock(holder, wants, others).await;
        match kind {
            "idempotent" => assert_eq!(statuses, [200; 12]),
            // Only one call found the seat in its first state.
            _ => assert_eq!(
                statuses.iter().filter(|status| **status == 200).count(),
                1,
                "{statuses:?}"
            ),
        }
        assert!(
            took < Duration::from_secs(4),
            "{kind}: three transactions took {took:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_transactions_begin_concurrently() {
    let s = house().await;
    let seats = s.running().adapter::<Seat>().unwrap();
    let (all, began) = (Barrier::new(6), Instant::now());
    let within = join_all((0..6).map(async |i: i64| {
        let id = format!("s{i}");
        let patch = SeatPatch {
            guests: Some(i),
            ..Default::default()
        };
        Cx::system("test")
            .transaction(async |cx| {
                seats.update(cx, &*id, patch, None).await?;
                // No call ends before all of them have begun.
                tokio::time::timeout(Duration::from_secs(4), all.wait())
                    .await
                    .map_err(Error::unavailable)?;
                Ok(began.elapsed())
            })
            .await
    }))
    .await;
    for took in within {
        let took = took.unwrap();
        assert!(
            took < Duration::from_secs(3),
            "all six had begun after {took:?}"
        );
    }
}
