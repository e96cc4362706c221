//! `array_push`, `array_pull` and `array_set`.

use serde_json::{Value as Json, json};

use super::{article, plain};
use crate::server::Server;

pub(super) async fn array_push_adds_a_value_once(s: &Server) {
    let path = format!("{}/add-tag", plain(s).await);
    for _ in 0..2 {
        let reply = s.post(&path, json!({"tag": "x"})).await;
        assert_eq!((reply.status, &reply.json()["tags"]), (200, &json!(["x"])));
    }
    s.post(&path, json!({"tag": ["x"]}))
        .await
        .problem("type", "tag");
    s.post(&path, json!({"tag": null}))
        .await
        .problem("null_not_allowed", "tag");
    s.post(&path, json!({})).await.problem("required", "tag");
}

pub(super) async fn array_push_without_dedupe_repeats_values(s: &Server) {
    let path = format!("{}/append-tag", plain(s).await);
    s.post(&path, json!({"tag": "x"})).await;
    assert_eq!(
        s.post(&path, json!({"tag": "x"})).await.json()["tags"],
        json!(["x", "x"])
    );
}

pub(super) async fn array_pull_removes_all_equal_values(s: &Server) {
    let path = article(s, json!({"tags": ["a", "x", "x"]})).await;
    for _ in 0..2 {
        let reply = s.delete(&format!("{path}/drop-tag?tag=x")).await;
        assert_eq!((reply.status, &reply.json()["tags"]), (200, &json!(["a"])));
    }
    s.delete(&format!("{path}/drop-tag"))
        .await
        .problem("required", "query:tag");
}

pub(super) async fn array_set_replaces_the_list(s: &Server) {
    let path = format!("{}/set-tags", plain(s).await);
    let put = |body: Json| s.raw_json("PUT", &path, body);
    assert_eq!(
        put(json!({"tags": ["a", "a", "b"]})).await.json()["tags"],
        json!(["a", "b"])
    );
    put(json!({"tags": "a"})).await.problem("type", "tags");
    put(json!({"tags": ["a", 1]}))
        .await
        .problem("type", "tags[1]");
}

pub(super) async fn array_push_creates_an_optional_list(s: &Server) {
    let path = plain(s).await;
    assert_eq!(s.get(&path).await.json()["tags"], Json::Null);
    assert_eq!(
        s.post(&format!("{path}/add-tag"), json!({"tag": "x"}))
            .await
            .json()["tags"],
        json!(["x"])
    );
    assert_eq!(
        s.post("/articles/nope/add-tag", json!({"tag": "x"}))
            .await
            .code(),
        (404, "not_found")
    );
}

pub(super) async fn array_push_of_a_context_value(s: &Server) {
    let path = format!("{}/follow", plain(s).await);
    let token = s.token("alice", &[]);
    let json = ("content-type", "application/json");
    let refused = s
        .raw(
            "POST",
            &path,
            &[("authorization", &token), json],
            r#"{"actorId":"bob"}"#,
        )
        .await;
    refused.problem("unknown_field", "actorId");
    let reply = s.raw("POST", &path, &[("authorization", &token)], "").await;
    assert_eq!(
        (reply.status, &reply.json()["tags"]),
        (200, &json!(["alice"]))
    );
    assert_eq!(s.raw("POST", &path, &[], "").await.status, 401);
}

pub(super) async fn concurrent_pushes_all_arrive(s: &Server) {
    let path = plain(s).await;
    let push = |tag: String| {
        let path = format!("{path}/add-tag");
        async move { s.post(&path, json!({"tag": tag})).await }
    };
    let replies = s.parallel(25, |i| push(format!("t{i}"))).await;
    assert!(replies.iter().all(|r| r.status == 200));
    assert_eq!(
        s.get(&path).await.json()["tags"].as_array().unwrap().len(),
        25
    );
    s.parallel(25, |_| push("same".to_owned())).await;
    assert_eq!(
        s.get(&path).await.json()["tags"].as_array().unwrap().len(),
        26
    );
}

// Constraints of elements and of the list: bounds and duplicates.
pub(super) async fn array_limits_are_enforced(s: &Server) {
    let path = plain(s).await;
    let add = |tag: &str| {
        let (path, body) = (format!("{path}/add-few"), json!({ "tag": tag }));
        async move { s.post(&path, body).await }
    };
    add("toolong").await.problem("max_length", "tag");
    assert_eq!(add("a").await.status, 200);
    assert_eq!(add("b").await.status, 200);
    add("c").await.problem("max_items", "few");
    assert_eq!(
        add("a").await.json()["few"],
        json!(["a", "b"]),
        "a value that is already in the list takes no space"
    );
    let drop = |tag: &str| {
        let path = format!("{path}/drop-some?tag={tag}");
        async move { s.delete(&path).await }
    };
    assert_eq!(drop("a").await.json()["some"], json!(["b"]));
    drop("b").await.problem("min_items", "some");
    assert_eq!(drop("zzz").await.json()["some"], json!(["b"]));
}
