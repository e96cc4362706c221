//! The number of statements that a permission adds: none, unless the record must be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::store::memory::Memory;
use serde_json::{Value as Json, json};

use crate::around::Around;
use crate::permissions::{WORK, with_role_evaluator};
use crate::server::Server;
use crate::tenancy::{call, id, made};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_add_few_statements() {
    let statement_count = Arc::new(AtomicUsize::new(0));
    let store = Around::new(Arc::new(Memory::new()), Arc::clone(&statement_count));
    let s = Server::memory_with(&WORK, |app| with_role_evaluator(app).store(Arc::new(store))).await;
    let (ann, bob, writer) = (
        s.token("ann", &[]),
        s.token("bob", &[]),
        s.token("w", &["paper.write", "write@c1"]),
    );
    let paper = made(
        &s,
        &ann,
        "/papers",
        json!({"slug": "a", "title": "T", "authorId": "ann"}),
    )
    .await;
    let thread = made(
        &s,
        &ann,
        "/threads",
        json!({"slug": "a", "title": "T", "authorId": "ann", "containerId": "c1"}),
    )
    .await;
    assert_eq!(
        statement_count.load(Ordering::SeqCst),
        2,
        "one statement for each create"
    );
    let (paper, thread) = (
        format!("/papers/{}", id(&paper)),
        format!("/threads/{}", id(&thread)),
    );
    let title = || json!({"title": "new"});
    for (token, method, path, body, status, statements) in [
        (&ann, "GET", "/papers", Json::Null, 200, 1),
        (&writer, "GET", "/papers", Json::Null, 200, 1),
        (&ann, "GET", "/papers/titled?title=T", Json::Null, 200, 1),
        (&ann, "GET", "/papers/stats", Json::Null, 200, 1),
        (&ann, "GET", &paper, Json::Null, 200, 1),
        (&ann, "PATCH", &paper, title(), 200, 1),
        (&writer, "PATCH", &paper, title(), 200, 1),
        (&ann, "POST", &format!("{paper}/view"), Json::Null, 200, 1),
        (&ann, "POST", "/papers/send-all", title(), 200, 1),
        // A hidden record looks like a missing one, so no further read is needed.
        (&bob, "GET", &paper, Json::Null, 404, 1),
        // The update changes no record, so a read looks for the reason. One more read decides
        // between 403 and 404.
        (&bob, "PATCH", &paper, title(), 403, 3),
        (&bob, "DELETE", &paper, Json::Null, 403, 0),
        (
            &bob,
            "POST",
            "/papers",
            json!({"slug": "b", "title": "T", "authorId": "ann"}),
            403,
            0,
        ),
        // The record contains its resource, so a write reads the record first.
        (&writer, "PATCH", &thread, title(), 200, 2),
        (&bob, "PATCH", &thread, title(), 403, 1),
        (
            &writer,
            "GET",
            "/threads/of-container?container=c1",
            Json::Null,
            200,
            1,
        ),
        (&bob, "GET", "/threads", Json::Null, 200, 1),
    ] {
        let before = statement_count.load(Ordering::SeqCst);
        let reply = call(&s, token, method, path, body).await;
        assert_eq!(
            (
                reply.status,
                statement_count.load(Ordering::SeqCst) - before
            ),
            (status, statements),
            "{method} {path}"
        );
    }
}
