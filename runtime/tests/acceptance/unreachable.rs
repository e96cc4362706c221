//! A store that cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use linchpin::http::{HttpService, HttpState, endpoints, service};
use linchpin::resource::{CursorKey, Table};
use linchpin::store::create_tables;
use linchpin::store::{Reply, Rows, Statement, Store};
use linchpin::{Adapters, Error, Value};
use serde_json::Value as Json;
use tower_service::Service;

use crate::around::{Around, Watch};
use crate::fixture::BLOG;

/// A text that only the log may contain.
const CAUSE: &str = "connection to 10.1.2.3:5432 as blog/hunter2 refused";

#[derive(Default)]
struct Outage {
    active: AtomicBool,
}

impl Watch for Arc<Outage> {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if self.active.load(Ordering::SeqCst) {
            return Reply::Ready(Err(Error::unavailable(CAUSE)));
        }
        store.run(statement, args, rows)
    }
}

/// The status, `Retry-After` and body of a response.
async fn get(service: &HttpService, path: &str) -> (u16, bool, String) {
    let Ok(response) = service
        .clone()
        .call(Request::get(path).body(Body::empty()).unwrap())
        .await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        parts.headers.contains_key("retry-after"),
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

async fn an_unreachable_store_is_unavailable(store: Arc<dyn Store>) {
    let post = BLOG.entities[0].desc;
    let outage = Arc::<Outage>::default();
    let store: Arc<dyn Store> = Arc::new(Around::new(store, Arc::clone(&outage)));
    create_tables(&*store, &[post]).await.unwrap();
    let key = CursorKey::derive(&["a secret of at least thirty-two bytes"]);
    let adapters = Adapters::new([Arc::new(Table::new(post, store, key).unwrap())]);
    let service = service(
        endpoints(&BLOG, BLOG.mount, &adapters),
        HttpState::new(adapters),
    )
    .unwrap();

    assert_eq!(get(&service, "/posts").await.0, 200);
    outage.active.store(true, Ordering::SeqCst);
    for path in [
        "/posts",
        "/posts/x",
        "/posts/by-slug?slug=a",
        "/posts/slug-taken?slug=a",
    ] {
        let (status, retry, text) = get(&service, path).await;
        assert_eq!((status, retry), (503, true), "{path} {text}");
        assert_eq!(
            serde_json::from_str::<Json>(&text).unwrap()["code"],
            "unavailable"
        );
        assert!(
            !text.contains("10.1.2.3") && !text.contains("hunter2"),
            "the response contains the cause: {text}"
        );
    }
    outage.active.store(false, Ordering::SeqCst);
    assert_eq!(
        get(&service, "/posts").await.0,
        200,
        "requests succeed when the store is back"
    );
}

mod memory {
    #[tokio::test]
    async fn an_unreachable_store_is_unavailable() {
        super::an_unreachable_store_is_unavailable(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }
}

mod sqlite {
    use linchpin::store::sqlite::{SqliteOptions, SqliteStore};

    #[tokio::test]
    async fn an_unreachable_store_is_unavailable() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::an_unreachable_store_is_unavailable(std::sync::Arc::new(store)).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};

    #[tokio::test]
    async fn an_unreachable_store_is_unavailable() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::an_unreachable_store_is_unavailable(std::sync::Arc::new(store)).await;
    }
}
