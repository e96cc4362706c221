//! The number of statements of each route, counted by a wrapper around the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::store::Store;
use serde_json::{Value as Json, json};

use crate::around::Around;
use crate::computed::PAPERS;
use crate::fixture::BLOG;
use crate::server::Server;
use crate::writes::WRITES;

async fn routes_keep_their_number_of_statements(store: Arc<dyn Store>) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&BLOG, |app| app.store(Arc::new(counting))).await;
    let mut posts = Vec::new();
    for slug in ["a", "b", "c", "d"] {
        let made = s
            .post(
                "/posts",
                json!({"slug": slug, "title": "T", "category": "k"}),
            )
            .await;
        posts.push(s.path(&made.json()));
    }
    assert_eq!(
        statements.load(Ordering::SeqCst),
        4,
        "one statement for each create"
    );
    let cursor = s.get("/posts?limit=2").await.json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    let (a, b, c, d) = (&posts[0], &posts[1], &posts[2], &posts[3]);
    let mut failures = Vec::new();
    let document = json!({"id": "doc", "kind": "k", "title": "t"});
    for (method, path, body, status, max_statements) in [
        // CRUD: 1.
        ("GET", a.clone(), Json::Null, 200, 1),
        ("PATCH", a.clone(), json!({"title": "U"}), 200, 1),
        ("PATCH", a.clone(), json!({}), 200, 1),
        ("GET", "/posts/nobody".to_owned(), Json::Null, 404, 1),
        (
            "POST",
            "/posts".to_owned(),
            json!({"slug": "a", "title": "T"}),
            409,
            1,
        ),
        ("POST", "/documents".to_owned(), document, 201, 1),
        ("POST", "/counters".to_owned(), json!({"id": "7"}), 201, 1),
        // Lists: 1, with any filter.
        ("GET", "/posts".to_owned(), Json::Null, 200, 1),
        (
            "GET",
            format!("/posts?limit=2&cursor={cursor}"),
            Json::Null,
            200,
            1,
        ),
        (
            "GET",
            "/posts?title=T&category[in]=k,l&sort=title".to_owned(),
            Json::Null,
            200,
            1,
        ),
        // `lookup` and `exists`: 1.
        (
            "GET",
            "/posts/by-slug?slug=a".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "GET",
            "/posts/by-slug?slug=nobody".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "GET",
            "/posts/by-category?category=k".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "GET",
            "/posts/newest?category=k".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "GET",
            "/posts/slug-taken?slug=a".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "HEAD",
            "/posts/slug-taken?slug=nobody".to_owned(),
            Json::Null,
            404,
            1,
        ),
        // By id: 1, and 1 more when no record matched.
        ("POST", format!("{a}/publish"), Json::Null, 200, 1),
        ("POST", format!("{a}/publish"), Json::Null, 400, 2),
        ("POST", format!("{b}/release"), Json::Null, 200, 1),
        ("POST", format!("{c}/archive"), Json::Null, 200, 1),
        ("POST", format!("{c}/bump"), Json::Null, 200, 1),
        (
            "POST",
            "/posts/nobody/publish".to_owned(),
            Json::Null,
            404,
            2,
        ),
        ("POST", "/posts/nobody/bump".to_owned(), Json::Null, 404, 2),
        (
            "POST",
            "/counters/7/add-three".to_owned(),
            Json::Null,
            200,
            1,
        ),
        (
            "PATCH",
            "/posts/nobody".to_owned(),
            json!({"title": "U"}),
            404,
            2,
        ),
        ("DELETE", d.clone(), Json::Null, 204, 1),
        ("DELETE", d.clone(), Json::Null, 404, 2),
    ] {
        let before = statements.load(Ordering::SeqCst);
        let reply = if body.is_null() {
            s.raw(method, &path, &[], "").await
        } else {
            s.raw_json(method, &path, body).await
        };
        let count = statements.load(Ordering::SeqCst) - before;
        if reply.status != status || !(1..=max_statements).contains(&count) {
            failures.push(format!("{method} {path}: {count} statements, {reply:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The other kinds that write by id, by a key or by a filter: one statement if a record matches. If
/// no record matches, a call by id needs one more statement.
async fn writing_operations_keep_their_number_of_statements(store: Arc<dyn Store>) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&WRITES, |app| app.store(Arc::new(counting))).await;
    let made = s
        .post(
            "/articles",
            json!({"slug": "a", "title": "T", "tags": ["x"]}),
        )
        .await
        .json();
    let a = format!("/articles/{}", made["id"].as_str().unwrap());
    let voucher = s.post("/vouchers", json!({"code": "k"})).await.json();
    let mut failures = Vec::new();
    for (method, path, body, status, expected) in [
        (
            "PATCH",
            format!("{a}/retitle"),
            json!({"title": "U"}),
            200,
            1,
        ),
        (
            "PATCH",
            format!("{a}/decide"),
            json!({"status": "published"}),
            200,
            1,
        ),
        (
            "PATCH",
            "/articles/nobody/retitle".to_owned(),
            json!({"title": "U"}),
            404,
            2,
        ),
        ("POST", format!("{a}/add-tag"), json!({"tag": "y"}), 200, 1),
        (
            "POST",
            format!("{a}/append-tag"),
            json!({"tag": "y"}),
            200,
            1,
        ),
        ("POST", format!("{a}/add-few"), json!({"tag": "y"}), 200, 1),
        (
            "POST",
            "/articles/nobody/add-tag".to_owned(),
            json!({"tag": "y"}),
            404,
            2,
        ),
        ("DELETE", format!("{a}/drop-tag?tag=y"), Json::Null, 200, 1),
        // A list with a minimum length is read first.
        ("DELETE", format!("{a}/drop-some?tag=a"), Json::Null, 200, 2),
        (
            "PUT",
            format!("{a}/set-tags"),
            json!({"tags": ["z"]}),
            200,
            1,
        ),
        (
            "POST",
            "/articles/ensure".to_owned(),
            json!({"slug": "a", "title": "V", "category": null}),
            200,
            1,
        ),
        (
            "POST",
            "/articles/ensure".to_owned(),
            json!({"slug": "b", "title": "V", "category": null}),
            201,
            1,
        ),
        (
            "POST",
            "/articles/publish-all".to_owned(),
            json!({"category": "k"}),
            200,
            1,
        ),
        (
            "POST",
            "/vouchers/redeem".to_owned(),
            json!({"code": "k"}),
            200,
            1,
        ),
        (
            "POST",
            "/vouchers/redeem".to_owned(),
            json!({"code": "k"}),
            200,
            1,
        ),
        (
            "POST",
            "/vouchers/take".to_owned(),
            json!({"id": voucher["id"]}),
            200,
            1,
        ),
    ] {
        let before = statements.load(Ordering::SeqCst);
        let reply = if body.is_null() {
            s.raw(method, &path, &[], "").await
        } else {
            s.raw_json(method, &path, body).await
        };
        let count = statements.load(Ordering::SeqCst) - before;
        if reply.status != status || count != expected {
            failures.push(format!("{method} {path}: {count} statements, {reply:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// All numbers of a response come from one snapshot, including those that are counted by value.
async fn an_aggregate_is_one_statement(store: Arc<dyn Store>) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&crate::aggregates::ENTRIES, |app| {
        app.store(Arc::new(counting))
    })
    .await;
    assert_eq!(
        s.post("/entries", json!({"category": "a"})).await.status,
        201
    );
    for path in ["/entries/details", "/entries/states", "/entries/by-status"] {
        let before = statements.load(Ordering::SeqCst);
        assert_eq!(s.get(path).await.status, 200, "{path}");
        assert_eq!(statements.load(Ordering::SeqCst) - before, 1, "{path}");
    }
}

/// Computing and writing is one statement; in memory it is a transaction, which this test does not
/// count.
async fn computed_aggregates_keep_their_number_of_statements(
    store: Arc<dyn Store>,
    expected: usize,
) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&PAPERS, |app| app.store(Arc::new(counting))).await;
    assert_eq!(
        s.post("/papers", json!({"id": "p1", "slug": "one"}))
            .await
            .status,
        201
    );
    assert_eq!(
        s.post("/remarks", json!({"paperId": "p1", "points": 7}))
            .await
            .status,
        201
    );
    let before = statements.load(Ordering::SeqCst);
    let reply = s
        .post(
            "/papers/resum",
            json!({"paperId": "p1", "but": 0, "slug": "one"}),
        )
        .await;
    assert_eq!((reply.status, &reply.json()["points"]), (200, &json!(7)));
    assert_eq!(statements.load(Ordering::SeqCst) - before, expected);
}

mod memory {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writing_operations_keep_their_number_of_statements() {
        super::writing_operations_keep_their_number_of_statements(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn routes_keep_their_number_of_statements() {
        super::routes_keep_their_number_of_statements(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn computed_aggregates_keep_their_number_of_statements() {
        super::computed_aggregates_keep_their_number_of_statements(
            std::sync::Arc::new(linchpin::store::memory::Memory::new()),
            0,
        )
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_aggregate_is_one_statement() {
        super::an_aggregate_is_one_statement(std::sync::Arc::new(
            linchpin::store::memory::Memory::new(),
        ))
        .await;
    }
}

mod sqlite {
    use linchpin::store::sqlite::{SqliteOptions, SqliteStore};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writing_operations_keep_their_number_of_statements() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::writing_operations_keep_their_number_of_statements(std::sync::Arc::new(store)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn routes_keep_their_number_of_statements() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::routes_keep_their_number_of_statements(std::sync::Arc::new(store)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn computed_aggregates_keep_their_number_of_statements() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::computed_aggregates_keep_their_number_of_statements(std::sync::Arc::new(store), 1)
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_aggregate_is_one_statement() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).unwrap();
        super::an_aggregate_is_one_statement(std::sync::Arc::new(store)).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writing_operations_keep_their_number_of_statements() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::writing_operations_keep_their_number_of_statements(std::sync::Arc::new(store)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn routes_keep_their_number_of_statements() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::routes_keep_their_number_of_statements(std::sync::Arc::new(store)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn computed_aggregates_keep_their_number_of_statements() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::computed_aggregates_keep_their_number_of_statements(std::sync::Arc::new(store), 1)
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_aggregate_is_one_statement() {
        let store = PostgresStore::open(PostgresOptions::new(
            crate::server::postgres_server::fresh_url(),
        ))
        .unwrap();
        super::an_aggregate_is_one_statement(std::sync::Arc::new(store)).await;
    }
}
