//! The cost of an `include`: one further statement per path, regardless of the contents of the
//! page. A wrapper around each store counts the statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::store::Store;
use serde_json::json;

use crate::around::Around;
use crate::relations::LETTERS;
use crate::server::Server;

async fn an_include_takes_one_statement_for_each_path(store: Arc<dyn Store>) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&LETTERS, |app| app.store(Arc::new(counting))).await;
    for n in 0..50 {
        for (path, body) in [
            ("/writers", json!({"id": format!("w{n}"), "name": "Ada"})),
            (
                "/essays",
                json!({"id": format!("e{n}"), "title": "On notes", "writerId": format!("w{}", n % 20)}),
            ),
            (
                "/remarks",
                json!({"id": format!("r{n}"), "essayId": format!("e{}", n % 10), "writerId": format!("w{n}")}),
            ),
        ] {
            assert_eq!(s.post(path, body).await.status, 201);
        }
    }
    for (path, expected) in [
        ("/essays?limit=50", 1),
        ("/essays?limit=50&include=writer", 2),
        ("/essays?limit=3&include=writer", 2),
        ("/essays?limit=50&include=remarks", 2),
        ("/essays?limit=50&include=writer,remarks", 3),
        // `remarks.writer` includes `remarks`, too: two further statements.
        ("/essays?limit=50&include=remarks.writer", 3),
        (
            "/essays?limit=50&include=writer,remarks,remarks.writer,remarks.essay",
            5,
        ),
        ("/essays/e1?include=writer,remarks", 3),
        ("/essays/by-writer?writerId=w1&include=writer", 2),
        ("/essays/find?q=notes&include=remarks.writer", 3),
        // No statement is sent for a missing record.
        ("/essays/nothing?include=writer", 1),
        ("/remarks?include=parent", 1),
    ] {
        let before = statements.load(Ordering::SeqCst);
        let reply = s.get(path).await;
        assert!(
            reply.status == 200 || path.contains("nothing"),
            "{path} {reply:?}"
        );
        assert_eq!(
            statements.load(Ordering::SeqCst) - before,
            expected,
            "{path}"
        );
    }
    let page = s
        .get("/essays?limit=50&include=writer,remarks")
        .await
        .json();
    let is_complete = |item: &serde_json::Value| {
        item["writer"]["name"] == "Ada" && item["remarks"]["items"].is_array()
    };
    assert!(
        page["items"]
            .as_array()
            .is_some_and(|items| items.len() == 50 && items.iter().all(is_complete))
    );
}

mod memory {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_include_takes_one_statement_for_each_path() {
        super::an_include_takes_one_statement_for_each_path(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }
}

mod sqlite {
    use linchpin::store::sqlite::{SqliteOptions, SqliteStore};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_include_takes_one_statement_for_each_path() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::an_include_takes_one_statement_for_each_path(std::sync::Arc::new(store)).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_include_takes_one_statement_for_each_path() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::an_include_takes_one_statement_for_each_path(std::sync::Arc::new(store)).await;
    }
}
