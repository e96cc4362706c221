//! PostgreSQL: writes that need locks of other calls. They finish, and other calls do not wait.

#![allow(missing_docs)] // test entities

use std::sync::Arc;

use futures_util::future::join_all;
use linchpin::Cx;
use linchpin::prelude::*;
use linchpin::store::postgres::{PostgresOptions, PostgresStore};
use serde_json::json;
use tokio::sync::Notify;

use crate::server::{Reply, Server};

/// A guest with a unique place.
#[entity(unique(place), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Guest {
    #[field(primary)]
    pub id: String,
    pub place: String,
    #[field(default = 0)]
    pub visits: i64,
}

/// A guest whose changes are audited.
#[entity(unique(place), routes(auth = none, update(event(name = "visitor.moved"), audit = "move")))]
#[derive(Clone, Debug)]
pub struct Visitor {
    #[field(primary)]
    pub id: String,
    pub place: String,
}

/// A crate that counts its parts.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Crate {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub parts: i64,
}

#[entity(counter(Crate.parts, by = crate_id), belongs_to(of: Crate, key = crate_id, on_delete = "cascade"), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Part {
    #[field(primary, default = uuid)]
    pub id: String,
    pub crate_id: String,
}

static STOCK: Package = package!(
    name = "stock",
    entities = [
        entity(Guest, []),
        entity(Visitor, []),
        entity(Crate, []),
        entity(Part, [])
    ]
);

async fn server() -> Server {
    let s = Server::postgres(&STOCK).await;
    for id in ["a", "b", "c"] {
        for path in ["/guests", "/visitors"] {
            assert_eq!(
                s.post(path, json!({"id": id, "place": id})).await.status,
                201
            );
        }
        assert_eq!(s.post("/crates", json!({"id": id})).await.status, 201);
    }
    s
}

/// A second connection to the database.
fn connect(s: &Server) -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(s.url())).unwrap()
}

/// Sends 60 concurrent requests. Each tries to move one of two records to the place of the other.
async fn exchange_places(s: &Server, path: &str) -> Vec<Reply> {
    join_all((0..60).map(async |i| {
        let (id, place) = if i % 2 == 0 { ("a", "b") } else { ("b", "a") };
        s.patch(&format!("{path}/{id}"), json!({"place": place}))
            .await
    }))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_exchanges_of_unique_values_are_conflicts() {
    let s = server().await;
    for path in ["/guests", "/visitors"] {
        let others =
            join_all((0..60).map(async |i| s.patch("/guests/c", json!({"visits": i})).await));
        let (moved, visits) = tokio::join!(exchange_places(&s, path), others);
        for reply in moved {
            // Each place is taken.
            assert_eq!(reply.code(), (409, "conflict"), "{path}: {reply:?}");
            assert_eq!(
                reply.problems(),
                [("place".to_owned(), "unique".to_owned())],
                "{path}: {reply:?}"
            );
        }
        assert!(visits.iter().all(|reply| reply.status == 200), "{visits:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_record_blocks_no_other() {
    let s = server().await;
    let other = connect(&s);
    let mut lock = other.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM crates WHERE id = 'a' FOR UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    sqlx::query("SELECT id FROM guests WHERE id = 'a' FOR UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let (s, free) = (&s, &Notify::new());
    let part = |of: &'static str| s.post("/parts", json!({"crateId": of}));
    let blocked = join_all((0..40).map(async |i| match i % 2 {
        0 => part("a").await.status,
        _ => s.patch("/guests/a", json!({"visits": i})).await.status,
    }));
    let other_writes = async {
        // At least one of the blocked calls waits for the lock.
        while waiting_statements(&other).await == 0 {
            tokio::task::yield_now().await;
        }
        for i in 0..20 {
            let (made, changed) =
                tokio::join!(part("b"), s.patch("/guests/b", json!({"visits": i})));
            assert_eq!(
                (made.status, changed.status),
                (201, 200),
                "{made:?} {changed:?}"
            );
        }
        free.notify_one();
    };
    let release = async {
        free.notified().await;
        lock.rollback().await.unwrap();
    };
    let (blocked, (), ()) = tokio::join!(blocked, other_writes, release);
    assert!(
        blocked.iter().all(|status| matches!(status, 200 | 201)),
        "{blocked:?}"
    );
    assert_eq!(s.get("/crates/a").await.json()["parts"], 20);
    assert_eq!(s.get("/crates/b").await.json()["parts"], 20);
    linchpin::store::Store::close(&other).await;
}

/// The number of statements that wait for a lock.
async fn waiting_statements(other: &PostgresStore) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE NOT granted")
        .fetch_one(other.pool())
        .await
        .unwrap()
}

/// Other transactions begin while a slow transaction of the app runs and another one waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_run_concurrently() {
    let s = server().await;
    let guests = s.running().adapter::<Guest>().unwrap();
    let cx = Cx::system("test");
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let visit = |visits| GuestPatch {
        visits: Some(visits),
        ..Default::default()
    };
    let slow = cx.transaction(async |cx| {
        guests.update(cx, "a", visit(1), None).await?;
        begun.notify_one();
        ended.notified().await;
        Ok(())
    });
    let waiting = async {
        begun.notified().await;
        let second_update =
            cx.transaction(async |cx| guests.update(cx, "a", visit(2), None).await.map(drop));
        let quick = async {
            cx.transaction(async |cx| guests.update(cx, "b", visit(3), None).await.map(drop))
                .await?;
            ended.notify_one();
            Ok(())
        };
        tokio::try_join!(second_update, quick)
    };
    tokio::try_join!(slow, waiting).unwrap();
    assert_eq!(s.get("/guests/a").await.json()["visits"], 2);
    assert_eq!(s.get("/guests/b").await.json()["visits"], 3);
}
