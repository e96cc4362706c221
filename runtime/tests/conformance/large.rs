//! Many records, without a clock: how many statements run, and how many rows leave the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use linchpin::Value;
use linchpin::http::HttpService;
use linchpin::store::{Reply, Rows, Statement, Store, Transaction};
use serde_json::{Value as Json, json};
use tower_service::Service;

use super::around::{Around, Watch};
use super::side::app;

/// Counts what runs, and the rows that come back as such: neither a number of rows nor an answer of
/// one.
#[derive(Default)]
struct Counting {
    statements: AtomicUsize,
    fetched: AtomicUsize,
}

impl Counting {
    /// Statements and rows since the last look.
    fn taken(&self) -> (usize, usize) {
        (
            self.statements.swap(0, Ordering::SeqCst),
            self.fetched.swap(0, Ordering::SeqCst),
        )
    }
}

impl Watch for Arc<Counting> {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        self.statements.fetch_add(1, Ordering::SeqCst);
        let reply = store.run(statement, args, rows);
        Reply::Later(Box::pin(async move {
            let rows = reply.await?;
            let fetched = if rows.json.is_empty() {
                rows.records.len()
            } else {
                rows.count
            };
            self.fetched.fetch_add(fetched, Ordering::SeqCst);
            Ok(rows)
        }))
    }

    fn begun(&self, _: Box<dyn Transaction>) -> Box<dyn Transaction> {
        panic!("nothing here needs a transaction")
    }
}

async fn call(service: &HttpService, method: &str, path: &str, body: Json) -> (u16, Json) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let Ok(response) = service.clone().call(request.body(body).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Json::Null))
}

/// A batch and an aggregate over 10,000 records send the same statements as over ten, and return no
/// further rows.
async fn many_records_are_the_stores_affair(store: Arc<dyn Store>) {
    let counting = Arc::<Counting>::default();
    let store: Arc<dyn Store> = Arc::new(Around::new(store, Arc::clone(&counting)));
    let (_, service) = app(&store, &Arc::new(AtomicI64::new(1_772_600_000_000))).await;
    let mut costs = Vec::new();
    let mut made = 0;
    for records in [10, 10_000] {
        while made < records {
            let some = (made..records.min(made + 250)).map(|n| {
                let body = json!({"slug": format!("s{n}"), "rank": n % 7, "category": format!("c{}", n % 3), "live": true});
                let service = service.clone();
                async move { call(&service, "POST", "/samples", body).await }
            });
            for (status, body) in futures_util::future::join_all(some).await {
                assert_eq!(status, 201, "{body}");
                made += 1;
            }
        }
        counting.taken();
        let (status, stats) = call(&service, "GET", "/samples/stats", Json::Null).await;
        assert_eq!((status, &stats["n"]), (200, &json!(records)), "{stats}");
        let numbers = counting.taken();
        let (status, groups) = call(&service, "GET", "/samples/by-category", Json::Null).await;
        assert_eq!(
            (status, groups.as_array().map(Vec::len)),
            (200, Some(3)),
            "{groups}"
        );
        let grouped = counting.taken();
        assert_eq!(grouped, (1, 3), "one row for each group");
        let (status, closed) =
            call(&service, "POST", "/samples/freshen", json!({"least": 0})).await;
        assert_eq!((status, &closed), (200, &json!(records)), "{closed}");
        let batch = counting.taken();
        assert_eq!(
            batch,
            (1, 0),
            "one statement, and the number alone comes back"
        );
        costs.push((numbers, grouped, batch));
    }
    assert_eq!(
        costs[0], costs[1],
        "the number of records is no affair of ours"
    );
}

mod memory {
    #[tokio::test]
    async fn many_records_are_the_stores_affair() {
        super::many_records_are_the_stores_affair(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }
}

mod sqlite {
    #[tokio::test]
    async fn many_records_are_the_stores_affair() {
        let (store, _folder) = crate::on_sqlite();
        super::many_records_are_the_stores_affair(store).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    #[tokio::test]
    async fn many_records_are_the_stores_affair() {
        super::many_records_are_the_stores_affair(crate::on_postgres().0).await;
    }
}
