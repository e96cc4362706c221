//! The operation kind `batch`: updates and deletes of all matching records.

use serde_json::json;

use super::article;
use crate::server::Server;

/// Creates three drafts: `a` and `b` in category `x`, `c` in category `y`.
pub(super) async fn three_drafts(s: &Server) {
    for (slug, category, score) in [("a", "x", 1), ("b", "x", 2), ("c", "y", 3)] {
        article(
            s,
            json!({"slug": slug, "category": category, "score": score}),
        )
        .await;
    }
}

pub(super) async fn statuses(s: &Server) -> Vec<String> {
    s.walk("/articles")
        .await
        .iter()
        .map(|r| r["status"].as_str().unwrap().to_owned())
        .collect()
}

pub(super) async fn a_batch_updates_all_matches(s: &Server) {
    three_drafts(s).await;
    let reply = s
        .post("/articles/publish-all", json!({"category": "x"}))
        .await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"2"[..]));
    assert_eq!(statuses(s).await, ["published", "published", "draft"]);
    s.post("/articles/publish-all", json!({}))
        .await
        .problem("required", "category");
    s.post("/articles/publish-all", json!({"category": "x", "more": 1}))
        .await
        .problem("unknown_field", "more");
}

pub(super) async fn a_batch_deletes_all_matches(s: &Server) {
    three_drafts(s).await;
    s.post("/articles/publish-all", json!({"category": "x"}))
        .await;
    assert_eq!(
        &s.raw("POST", "/articles/sweep", &[], "").await.body[..],
        b"2"
    );
    assert_eq!(
        &s.raw("POST", "/articles/sweep", &[], "").await.body[..],
        b"0"
    );
    assert_eq!(s.walk("/articles").await.len(), 1);
}

pub(super) async fn a_batch_without_a_match_changes_nothing(s: &Server) {
    three_drafts(s).await;
    assert_eq!(
        &s.raw("POST", "/articles/sweep-either", &[], "").await.body[..],
        b"0"
    );
    assert_eq!(s.walk("/articles").await.len(), 3);
}

/// The records of a list, by slug.
async fn slugs(s: &Server, query: &str) -> Vec<String> {
    s.walk(&format!("/articles?{query}"))
        .await
        .iter()
        .map(|r| r["slug"].as_str().unwrap().to_owned())
        .collect()
}

pub(super) async fn a_batch_applies_every_condition(s: &Server) {
    // `b` and `c` match all four conditions. Each other article fails exactly one: the score of `a`
    // is too low, and the slugs of the last three name the condition that they fail.
    three_drafts(s).await;
    article(s, json!({"slug": "category", "category": "z", "score": 5})).await;
    article(
        s,
        json!({"slug": "contains", "category": "x", "score": 5, "title": "Other"}),
    )
    .await;
    s.advance(3_600_000);
    article(s, json!({"slug": "now", "category": "x", "score": 5})).await;
    s.advance(-3_600_000);
    let conditions = [
        ("a", "score[gt]=1".to_owned()),
        ("category", "category[in]=x,y".to_owned()),
        ("contains", "title[contains]=TITLE".to_owned()),
        ("now", format!("createdAt[lte]={}", s.now())),
    ];
    let all = conditions
        .iter()
        .map(|(_, condition)| condition.as_str())
        .collect::<Vec<_>>();
    let listed = slugs(s, &all.join("&")).await;
    assert_eq!(listed, ["b", "c"]);
    for (n, (slug, _)) in conditions.iter().enumerate() {
        let others: Vec<&str> = all
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != n)
            .map(|(_, condition)| *condition)
            .collect();
        let more = slugs(s, &others.join("&")).await;
        assert!(
            more.len() == 3 && more.contains(&(*slug).to_owned()),
            "without {}: {more:?}",
            all[n]
        );
    }
    let reply = s
        .post(
            "/articles/archive-some",
            json!({"least": 1, "part": "TITLE"}),
        )
        .await;
    assert_eq!(reply.json(), json!(listed.len()));
    assert_eq!(slugs(s, "status=archived").await, listed);
    assert_eq!(
        slugs(s, "status=draft").await,
        ["a", "category", "contains", "now"]
    );
    s.post("/articles/archive-some", json!({"least": 1, "part": ""}))
        .await
        .problem("empty", "part");
}

pub(super) async fn a_void_batch_returns_nothing(s: &Server) {
    three_drafts(s).await;
    let reply = s.post("/articles/reset", json!({"category": "x"})).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let scores: Vec<_> = s
        .walk("/articles")
        .await
        .iter()
        .map(|r| r["score"].as_i64().unwrap())
        .collect();
    assert_eq!(scores, [0, 0, 3]);
}

pub(super) async fn a_batch_that_violates_a_unique_changes_nothing(s: &Server) {
    three_drafts(s).await;
    let reply = s
        .post("/articles/reslug", json!({"category": "x", "slug": "same"}))
        .await;
    assert_eq!(reply.code(), (409, "conflict"));
    let slugs: Vec<_> = s
        .walk("/articles")
        .await
        .iter()
        .map(|r| r["slug"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(slugs, ["a", "b", "c"]);
}
