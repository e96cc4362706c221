//! BAT-*: many records at once.

use serde_json::json;

use super::article;
use crate::server::Server;

pub(super) async fn three(s: &Server) {
    for (slug, category, score) in [("a", "x", 1), ("b", "x", 2), ("c", "y", 3)] {
        article(s, json!({"slug": slug, "category": category, "score": score})).await;
    }
}

pub(super) async fn statuses(s: &Server) -> Vec<String> {
    s.walk("/articles").await.iter().map(|r| r["status"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn bat_01(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/publish-all", json!({"category": "x"})).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"2"[..]));
    assert_eq!(statuses(s).await, ["published", "published", "draft"]);
    s.post("/articles/publish-all", json!({})).await.problem("required", "category");
    s.post("/articles/publish-all", json!({"category": "x", "more": 1})).await.problem("unknown_field", "more");
}

pub(super) async fn bat_02(s: &Server) {
    three(s).await;
    s.post("/articles/publish-all", json!({"category": "x"})).await;
    assert_eq!(&s.raw("POST", "/articles/sweep", &[], "").await.body[..], b"2");
    assert_eq!(&s.raw("POST", "/articles/sweep", &[], "").await.body[..], b"0");
    assert_eq!(s.walk("/articles").await.len(), 1);
}

pub(super) async fn bat_03(s: &Server) {
    three(s).await;
    assert_eq!(&s.raw("POST", "/articles/sweep-either", &[], "").await.body[..], b"0");
    assert_eq!(s.walk("/articles").await.len(), 3);
}

pub(super) async fn bat_04(s: &Server) {
    three(s).await;
    let listed = s.walk("/articles?score[gt]=1&category[in]=x,y").await.len();
    let reply = s.post("/articles/archive-some", json!({"least": 1, "part": "TITLE"})).await;
    assert_eq!(reply.json(), json!(listed));
    assert_eq!(statuses(s).await, ["draft", "archived", "archived"]);
    s.post("/articles/archive-some", json!({"least": 1, "part": ""})).await.problem("empty", "part");
}

pub(super) async fn bat_05(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/reset", json!({"category": "x"})).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let scores: Vec<_> = s.walk("/articles").await.iter().map(|r| r["score"].as_i64().unwrap()).collect();
    assert_eq!(scores, [0, 0, 3]);
}

// No id, but 7.8: a violated unique leaves everything as it was.
pub(super) async fn bat_unique(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/reslug", json!({"category": "x", "slug": "same"})).await;
    assert_eq!(reply.code(), (409, "conflict"));
    let slugs: Vec<_> = s.walk("/articles").await.iter().map(|r| r["slug"].as_str().unwrap().to_owned()).collect();
    assert_eq!(slugs, ["a", "b", "c"]);
}
