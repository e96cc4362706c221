//! Records that another transaction writes while the record that they refer to is deleted.

use std::pin::pin;
use std::time::Duration;

use linchpin::{Actor, Cx, Result};
use serde_json::json;

use super::{Memo, MemoPatch, Project, ProjectPatch, get, people, post};
use crate::server::{Reply, Server};

/// Deletes a person during a transaction that has done some work.
async fn delete_during(s: &Server, work: impl AsyncFnOnce(&Cx) -> Result<()>) -> Reply {
    let mut deletion = pin!(s.delete("/people/gone"));
    let early_reply = Cx::actor(Actor::user("w"))
        .at(s.now())
        .transaction(async |cx| {
            work(cx).await?;
            // A deletion that does not wait for the transaction has finished by then.
            Ok(tokio::select! {
                reply = &mut deletion => Some(reply),
                () = tokio::time::sleep(Duration::from_millis(300)) => None,
            })
        })
        .await
        .unwrap();
    match early_reply {
        Some(reply) => reply,
        None => deletion.await,
    }
}

/// The records that the other transaction writes are neither skipped nor lost: the deletion waits
/// for that transaction.
pub(super) async fn records_in_use_are_not_deleted(s: &Server) {
    people(s, &["gone"]).await;
    for id in ["a", "b"] {
        post(s, "/memos", json!({"id": id, "authorId": "gone"})).await;
        post(s, "/projects", json!({"id": id, "leadId": "gone"})).await;
    }
    let (memos, projects) = (
        s.running().adapter::<Memo>().unwrap(),
        s.running().adapter::<Project>().unwrap(),
    );
    let reply = delete_during(s, async |cx| {
        memos
            .update(
                cx,
                "a",
                MemoPatch {
                    text: Some("x".to_owned()),
                    ..MemoPatch::default()
                },
                None,
            )
            .await?;
        projects
            .update(
                cx,
                "a",
                ProjectPatch {
                    title: Some("x".to_owned()),
                    ..ProjectPatch::default()
                },
                None,
            )
            .await?;
        Ok(())
    })
    .await;
    assert_eq!(reply.status, 204, "{reply:?}");
    for id in ["a", "b"] {
        assert_eq!(
            get(s, &format!("/memos/{id}")).await["authorId"],
            json!(null),
            "{id}"
        );
        assert_eq!(s.get(&format!("/projects/{id}")).await.status, 404, "{id}");
    }
    assert_eq!(get(s, "/memos/a").await["text"], "x");
}

/// A deletion with effects on more records than one statement handles. Meanwhile the other
/// transaction sets the key of three records to null.
pub(super) async fn batches_keep_records_in_use(s: &Server) {
    people(s, &["gone"]).await;
    let memos = s.running().adapter::<Memo>().unwrap();
    let (cx, count) = (Cx::actor(Actor::user("w")).at(s.now()), 600);
    let memo = |n: usize| super::MemoCreate {
        id: format!("m{n:03}"),
        author_id: Some("gone".to_owned()),
        done: None,
        text: None,
    };
    for n in 0..count {
        memos.create(&cx, memo(n)).await.unwrap();
    }
    let reply = delete_during(s, async |cx| {
        for id in ["m000", "m001", "m002"] {
            memos
                .update(
                    cx,
                    id,
                    MemoPatch {
                        author_id: Some(None),
                        ..MemoPatch::default()
                    },
                    None,
                )
                .await?;
        }
        memos
            .update(
                cx,
                "m003",
                MemoPatch {
                    text: Some("x".to_owned()),
                    ..MemoPatch::default()
                },
                None,
            )
            .await?;
        Ok(())
    })
    .await;
    assert_eq!(reply.status, 204, "{reply:?}");
    let left = s.walk("/memos?limit=200").await;
    assert_eq!(left.len(), count);
    assert!(
        left.iter().all(|memo| memo["authorId"].is_null()),
        "a record still refers to a deleted one"
    );
}
