//! Operations on many records, measured without a clock: by the number of statements, and of rows
//! that the store returns.

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

/// Counts the statements and the returned rows. A statement that returns only the number of rows
/// returns no row.
#[derive(Default)]
struct Counting {
    statements: AtomicUsize,
    fetched: AtomicUsize,
}

impl Counting {
    /// Statements and rows since the last call.
    fn take(&self) -> (usize, usize) {
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

    fn wrap_transaction(&self, _: Box<dyn Transaction>) -> Box<dyn Transaction> {
        panic!("no call of this test needs a transaction")
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

/// A batch and an aggregate over 10,000 records send the same number of statements, and return the
/// same number of rows, as over ten records.
async fn statements_do_not_depend_on_the_number_of_records(store: Arc<dyn Store>) {
    let counting = Arc::<Counting>::default();
    let store: Arc<dyn Store> = Arc::new(Around::new(store, Arc::clone(&counting)));
    let (_, service) = app(&store, &Arc::new(AtomicI64::new(1_772_600_000_000))).await;
    let mut costs = Vec::new();
    let mut created = 0;
    for records in [10, 10_000] {
        while created < records {
            let requests = (created..records.min(created + 250)).map(|n| {
                let body = json!({"slug": format!("s{n}"), "rank": n % 7, "category": format!("c{}", n % 3), "live": true});
                let service = service.clone();
                async move { call(&service, "POST", "/samples", body).await }
            });
            for (status, body) in futures_util::future::join_all(requests).await {
                assert_eq!(status, 201, "{body}");
                created += 1;
            }
        }
        counting.take();
        let (status, stats) = call(&service, "GET", "/samples/stats", Json::Null).await;
        assert_eq!((status, &stats["n"]), (200, &json!(records)), "{stats}");
        let numbers = counting.take();
        let (status, groups) = call(&service, "GET", "/samples/by-category", Json::Null).await;
        assert_eq!(
            (status, groups.as_array().map(Vec::len)),
            (200, Some(3)),
            "{groups}"
        );
        let grouped = counting.take();
        assert_eq!(grouped, (1, 3), "one row for each group");
        let (status, changed) =
            call(&service, "POST", "/samples/freshen", json!({"least": 0})).await;
        assert_eq!((status, &changed), (200, &json!(records)), "{changed}");
        let batch = counting.take();
        assert_eq!(
            batch,
            (1, 0),
            "one statement, which returns only the number"
        );
        costs.push((numbers, grouped, batch));
    }
    assert_eq!(
        costs[0], costs[1],
        "the costs do not depend on the number of records"
    );
}

mod memory {
    #[tokio::test]
    async fn statements_do_not_depend_on_the_number_of_records() {
        super::statements_do_not_depend_on_the_number_of_records(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }
}

mod sqlite {
    #[tokio::test]
    async fn statements_do_not_depend_on_the_number_of_records() {
        let (store, _folder) = crate::on_sqlite();
        super::statements_do_not_depend_on_the_number_of_records(store).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    #[tokio::test]
    async fn statements_do_not_depend_on_the_number_of_records() {
        super::statements_do_not_depend_on_the_number_of_records(crate::on_postgres().0).await;
    }
}
