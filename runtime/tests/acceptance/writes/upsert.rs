//! `upsert`.

use serde_json::{Value as Json, json};

use super::plain;
use crate::server::{Reply, Server};

pub(super) async fn upsert_creates_then_updates(s: &Server) {
    let first = s
        .post("/articles/ensure", json!({"slug": "u", "title": "One"}))
        .await;
    assert_eq!(
        (first.status, &first.json()["created"]),
        (201, &json!(true))
    );
    let entity = first.json()["entity"].clone();
    assert_eq!(
        first.header("location"),
        format!("/articles/{}", entity["id"].as_str().unwrap())
    );
    assert_eq!(
        (&entity["title"], &entity["score"]),
        (&json!("One"), &json!(7))
    );
    let second = s
        .post("/articles/ensure", json!({"slug": "u", "title": "Two"}))
        .await;
    assert_eq!(
        (second.status, &second.json()["created"]),
        (200, &json!(false))
    );
    assert_eq!(second.header("location"), "");
    let again = second.json()["entity"].clone();
    assert_eq!(
        (&again["id"], &again["title"], &again["score"]),
        (&entity["id"], &json!("Two"), &json!(7))
    );
    let bare = s
        .post(
            "/articles/put-title",
            json!({"slug": "u", "title": "Three"}),
        )
        .await;
    assert_eq!((bare.status, &bare.json()["title"]), (200, &json!("Three")));
    s.post("/articles/ensure", json!({"slug": null, "title": "x"}))
        .await
        .problem("null_not_allowed", "slug");
    s.post("/articles/ensure", json!({"slug": "v"}))
        .await
        .problem("required", "title");
    s.post("/articles/ensure", json!({"slug": "v", "title": ""}))
        .await
        .problem("min_length", "title");
    s.post(
        "/articles/ensure",
        json!({"slug": "v", "title": "x", "score": 1}),
    )
    .await
    .problem("unknown_field", "score");
}

pub(super) async fn upsert_keeps_omitted_fields(s: &Server) {
    s.post(
        "/articles/ensure",
        json!({"slug": "u", "title": "One", "category": "c"}),
    )
    .await;
    let second = s
        .post("/articles/ensure", json!({"slug": "u", "title": "Two"}))
        .await;
    assert_eq!(second.json()["entity"]["category"], "c");
    let third = s
        .post(
            "/articles/ensure",
            json!({"slug": "u", "title": "Two", "category": null}),
        )
        .await;
    assert_eq!(third.json()["entity"]["category"], Json::Null);
}

pub(super) async fn concurrent_upserts_create_once(s: &Server) {
    let replies: Vec<Reply> = s
        .parallel(25, |i| {
            s.post(
                "/articles/ensure",
                json!({"slug": "u", "title": format!("t{i}")}),
            )
        })
        .await;
    assert_eq!(
        replies
            .iter()
            .filter(|r| r.status == 201 && r.json()["created"] == true)
            .count(),
        1
    );
    assert_eq!(
        replies
            .iter()
            .filter(|r| r.status == 200 && r.json()["created"] == false)
            .count(),
        24
    );
    assert_eq!(s.walk("/articles").await.len(), 1);
}

// Matches by the primary key; the response shows whether the record was created.
pub(super) async fn upsert_matches_by_key(s: &Server) {
    let first = s
        .post("/settings/put-setting", json!({"id": "a b", "low": 1}))
        .await;
    assert_eq!(
        (first.status, first.header("location").as_str()),
        (201, "/settings/a%20b")
    );
    assert_eq!(
        (first.header("etag").as_str(), &first.json()["high"]),
        ("\"1\"", &json!(100))
    );
    let second = s
        .post("/settings/put-setting", json!({"id": "a b", "low": 2}))
        .await;
    assert_eq!(
        (second.status, second.header("etag").as_str()),
        (200, "\"2\"")
    );
    s.post("/settings/put-setting", json!({"id": "..", "low": 2}))
        .await
        .problem("format", "id");
    let replies: Vec<Reply> = s
        .parallel(25, |i| {
            s.post("/settings/put-setting", json!({"id": "p", "low": i}))
        })
        .await;
    assert_eq!(
        replies.iter().filter(|r| r.status == 201).count(),
        1,
        "{replies:?}"
    );
    assert!(replies.iter().all(|r| [200, 201].contains(&r.status)));
}

pub(super) async fn upsert_refuses_a_key_that_the_server_generates(s: &Server) {
    let path = plain(s).await;
    let id = path.rsplit('/').next().unwrap();
    assert_eq!(
        s.post(
            "/articles/ensure",
            json!({"id": id, "slug": "b", "title": "x"})
        )
        .await
        .status,
        400,
        "the server generates the key"
    );
    assert_eq!(s.get(&path).await.json()["slug"], "a");
}

// The `check` of the entity runs on the resulting record.
pub(super) async fn upsert_validates_its_fields(s: &Server) {
    s.post("/settings/put-setting", json!({"id": "a", "low": 200}))
        .await
        .problem("check", "low");
    assert_eq!(
        s.post(
            "/settings/put-setting",
            json!({"id": "a", "low": 5, "high": 10})
        )
        .await
        .status,
        201
    );
    s.post("/settings/put-setting", json!({"id": "a", "low": 50}))
        .await
        .problem("check", "low");
    assert_eq!(s.get("/settings/a").await.json()["low"], 5);
    // Omitted fields keep their stored value, even if they have a default.
    assert_eq!(
        s.post(
            "/settings/put-setting",
            json!({"id": "b", "low": 5, "high": 300})
        )
        .await
        .status,
        201
    );
    let kept = s
        .post("/settings/put-setting", json!({"id": "b", "low": 200}))
        .await;
    assert_eq!(
        (kept.status, &kept.json()["low"], &kept.json()["high"]),
        (200, &json!(200), &json!(300))
    );
    s.post("/settings/put-setting", json!({"id": "b", "low": 301}))
        .await
        .problem("check", "low");
    // Invalid values are reported first.
    s.post("/settings/put-setting", json!({"id": "b", "low": "x"}))
        .await
        .problem("type", "low");
}

/// The record exists, but no read finds it.
pub(super) async fn upsert_cannot_change_hidden_records(s: &Server) {
    assert_eq!(
        s.post("/drawers/put-drawer", json!({"id": "a", "label": "socks"}))
            .await
            .status,
        201
    );
    assert_eq!(s.delete("/drawers/a").await.status, 204);
    let refused = s
        .post("/drawers/put-drawer", json!({"id": "a", "label": "shirts"}))
        .await;
    assert_eq!(refused.code(), (409, "conflict"));
    assert_eq!(refused.json()["error"], "The record exists already");
}
