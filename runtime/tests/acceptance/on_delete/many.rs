//! Concurrent creations of children and deletions of their parent.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio::sync::Barrier;

use super::people;
use crate::server::Server;

/// Creates children concurrently with a deletion.
pub(super) async fn create_during_deletion(
    s: &Server,
    path: &str,
    body: impl Fn(usize) -> Json,
    children: &str,
) {
    for round in 0..12 {
        let _ = s.delete("/people/gone").await;
        people(s, &["gone"]).await;
        let barrier = Arc::new(Barrier::new(13));
        let body = &body;
        let outcomes = s
            .parallel(13, |n| {
                let barrier = Arc::clone(&barrier);
                async move {
                    barrier.wait().await;
                    if n == 6 {
                        s.delete("/people/gone").await
                    } else {
                        s.post(path, body(round * 100 + n)).await
                    }
                }
            })
            .await;
        let deleted = s.get("/people/gone").await.status == 404;
        assert_eq!(deleted, outcomes[6].status == 204, "{:?}", outcomes[6]);
        assert!(
            matches!(outcomes[6].status, 204 | 409 | 503),
            "{:?}",
            outcomes[6]
        );
        let remaining = s.walk(&format!("{children}?limit=200")).await;
        for (n, reply) in outcomes.iter().enumerate().filter(|(n, _)| *n != 6) {
            // One of several concurrent transactions may fail. It then reports the failure and has
            // changed nothing.
            assert!(matches!(reply.status, 201 | 400 | 503), "{n} {reply:?}");
            if reply.status == 400 {
                assert!(
                    deleted,
                    "a key is refused only if its record is deleted: {reply:?}"
                );
            }
        }
        if deleted {
            assert!(
                remaining
                    .iter()
                    .all(|child| child["leadId"] != "gone" && child["personId"] != "gone"),
                "{remaining:?}"
            );
        }
        // The next round begins without these records.
        for child in &remaining {
            assert_eq!(
                s.delete(&format!("{children}/{}", child["id"].as_str().unwrap()))
                    .await
                    .status,
                204
            );
        }
    }
}

pub(super) async fn concurrent_creates_and_deletions_leave_no_orphan(s: &Server) {
    create_during_deletion(
        s,
        "/projects",
        |n| json!({"id": format!("p{n}"), "leadId": "gone"}),
        "/projects",
    )
    .await;
}

pub(super) async fn concurrent_creates_and_restricted_deletions_leave_no_orphan(s: &Server) {
    create_during_deletion(
        s,
        "/desks",
        |n| json!({"id": format!("d{n}"), "personId": "gone"}),
        "/desks",
    )
    .await;
}
