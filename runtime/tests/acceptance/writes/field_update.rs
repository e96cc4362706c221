//! `field_update`.

use serde_json::{Value as Json, json};

use super::{article, plain};
use crate::server::Server;

pub(super) async fn field_update_writes_its_fields(s: &Server) {
    let path = plain(s).await;
    let before = s.get(&path).await.json();
    s.advance(5);
    let reply = s
        .patch(&format!("{path}/retitle"), json!({"title": "New"}))
        .await;
    assert_eq!((reply.status, &reply.json()["title"]), (200, &json!("New")));
    let mut expected = before.clone();
    expected["title"] = json!("New");
    expected["updatedAt"] = reply.json()["updatedAt"].clone();
    assert_eq!(s.get(&path).await.json(), expected);
    assert!(expected["updatedAt"].as_str() > before["updatedAt"].as_str());
}

pub(super) async fn field_update_refuses_other_fields(s: &Server) {
    let path = plain(s).await;
    s.patch(
        &format!("{path}/retitle"),
        json!({"title": "New", "score": 1}),
    )
    .await
    .problem("unknown_field", "score");
    assert_eq!(s.get(&path).await.json()["title"], "A title");
}

pub(super) async fn field_update_validates_its_fields(s: &Server) {
    let path = plain(s).await;
    assert_eq!(
        s.patch("/articles/nope/retitle", json!({"title": "New"}))
            .await
            .code(),
        (404, "not_found")
    );
    s.patch(&format!("{path}/retitle"), json!({"title": 42}))
        .await
        .problem("type", "title");
    s.patch(&format!("{path}/retitle"), json!({"title": ""}))
        .await
        .problem("min_length", "title");
    s.patch(&format!("{path}/retitle"), json!({"title": null}))
        .await
        .problem("null_not_allowed", "title");
}

pub(super) async fn partial_fields_may_be_omitted(s: &Server) {
    let path = article(s, json!({"category": "c"})).await;
    s.patch(&format!("{path}/rename"), json!({"title": "New"}))
        .await
        .problem("required", "category");
    let reply = s
        .patch(&format!("{path}/revise"), json!({"title": "New"}))
        .await;
    assert_eq!(
        (&reply.json()["title"], &reply.json()["category"]),
        (&json!("New"), &json!("c"))
    );
    let before = s.get(&path).await.json();
    s.advance(5);
    let nothing = s.patch(&format!("{path}/revise"), json!({})).await;
    assert_eq!(
        (nothing.status, nothing.json()),
        (200, before),
        "an empty body changes nothing"
    );
}

pub(super) async fn nullable_fields_may_be_cleared(s: &Server) {
    let path = article(s, json!({"category": "c", "email": "a@b.example"})).await;
    let reply = s
        .patch(&format!("{path}/clear"), json!({"category": null}))
        .await;
    assert_eq!(
        (&reply.json()["category"], &reply.json()["email"]),
        (&Json::Null, &json!("a@b.example"))
    );
    s.patch(
        &format!("{path}/rename"),
        json!({"title": "t", "category": null}),
    )
    .await
    .problem("null_not_allowed", "category");
}

pub(super) async fn match_conditions_restrict_a_field_update(s: &Server) {
    let path = format!("{}/decide", plain(s).await);
    let reply = s.patch(&path, json!({"status": "published"})).await;
    assert_eq!(
        (reply.status, &reply.json()["status"]),
        (200, &json!("published"))
    );
    assert_eq!(
        s.patch(&path, json!({"status": "draft"})).await.code(),
        (404, "not_found")
    );
}
