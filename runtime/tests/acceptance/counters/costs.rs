//! A change that cannot affect a counter needs no additional statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::store::Store;

use super::*;
use crate::around::Around;

/// Statements within transactions are not counted here.
async fn routes_without_effect_on_counters_need_no_more_statements(store: Arc<dyn Store>) {
    let statements = Arc::new(AtomicUsize::new(0));
    let counting = Around::new(store, Arc::clone(&statements));
    let s = Server::memory_with(&FORUM, |app| app.store(Arc::new(counting))).await;
    topics(&s, &["t"]).await;
    post(
        &s,
        "/answers",
        json!({"id": "a", "slug": "a", "topicId": "t", "status": "live"}),
    )
    .await;
    post(&s, "/shops", json!({"id": "1"})).await;
    let mut unexpected = Vec::new();
    for (method, path, body, status, expected) in [
        ("GET", "/topics/t", Json::Null, 200, 1),
        ("GET", "/answers/a", Json::Null, 200, 1),
        ("GET", "/answers", Json::Null, 200, 1),
        ("PATCH", "/answers/a", json!({"text": "x"}), 200, 1),
        ("PATCH", "/answers/a/reword", json!({"text": "y"}), 200, 1),
        ("PATCH", "/topics/t", json!({"title": "T"}), 200, 1),
        // No counter counts this record, but the create runs in a transaction.
        ("POST", "/answers", json!({"id": "b"}), 201, 0),
        // A counter changes, in a transaction.
        ("PATCH", "/answers/a", json!({"status": "draft"}), 200, 0),
        ("POST", "/answers/a/like", Json::Null, 200, 0),
        ("DELETE", "/answers/a", Json::Null, 204, 0),
    ] {
        let before = statements.load(Ordering::SeqCst);
        let reply = if body.is_null() {
            s.raw(method, path, &[], "").await
        } else {
            s.raw_json(method, path, body).await
        };
        let took = statements.load(Ordering::SeqCst) - before;
        if (reply.status, took) != (status, expected) {
            unexpected.push(format!("{method} {path}: {took} statements, {reply:?}"));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    check_counters(&s, "all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_routes_in_memory() {
    routes_without_effect_on_counters_need_no_more_statements(Arc::new(
        linchpin::store::memory::Memory::new(),
    ))
    .await;
}
