//! `transition` and `increment`.

use serde_json::json;

use crate::cases;
use crate::server::Server;

cases!(
    a_transition_sets_state_and_fields,
    a_transition_from_another_state_is_refused,
    a_transition_of_a_missing_record_is_not_found,
    a_transition_starts_from_each_of_its_states,
    a_transition_may_return_a_boolean,
    a_transition_takes_parameters,
    concurrent_transitions_succeed_once,
    increment_adds_its_amount,
    the_client_does_not_choose_the_amount,
    concurrent_increments_all_count,
    increment_stays_within_the_range
);

async fn a_transition_sets_state_and_fields(s: &Server) {
    let created = s.create("a").await;
    s.advance(1000);
    let reply = s
        .raw("POST", &format!("{}/publish", s.path(&created)), &[], "")
        .await;
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!(body["status"], "published");
    assert_eq!(body["publishedAt"], body["updatedAt"]);
    assert!(body["updatedAt"].as_str() > created["updatedAt"].as_str());
}

async fn a_transition_from_another_state_is_refused(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/publish", s.path(&created));
    let published = s.raw("POST", &path, &[], "").await.json();
    s.advance(1000);
    let reply = s.raw("POST", &path, &[], "").await;
    assert_eq!(reply.code(), (400, "invalid_transition"));
    let details = reply.json()["details"].clone();
    let detail = |code: &str| {
        details
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["code"] == code)
            .cloned()
            .unwrap()
    };
    assert_eq!(
        (
            &detail("current")["message"],
            &detail("expected")["message"]
        ),
        (&json!("published"), &json!("draft"))
    );
    assert_eq!(detail("current")["path"], "status");
    assert_eq!(s.get(&s.path(&created)).await.json(), published);
}

async fn a_transition_of_a_missing_record_is_not_found(s: &Server) {
    assert_eq!(
        s.raw("POST", "/posts/nope/publish", &[], "").await.code(),
        (404, "not_found")
    );
}

async fn a_transition_starts_from_each_of_its_states(s: &Server) {
    let (a, b) = (s.create("a").await, s.create("b").await);
    s.raw("POST", &format!("{}/publish", s.path(&b)), &[], "")
        .await;
    for record in [&a, &b] {
        assert_eq!(
            s.raw("POST", &format!("{}/archive", s.path(record)), &[], "")
                .await
                .status,
            200
        );
    }
    let reply = s
        .raw("POST", &format!("{}/archive", s.path(&a)), &[], "")
        .await;
    assert_eq!(reply.code(), (400, "invalid_transition"));
    assert_eq!(
        reply
            .problems()
            .iter()
            .filter(|(_, code)| code == "expected")
            .count(),
        2
    );
}

async fn a_transition_may_return_a_boolean(s: &Server) {
    let created = s.create("a").await;
    let reply = s
        .raw("POST", &format!("{}/release", s.path(&created)), &[], "")
        .await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"true"[..]));
}

async fn a_transition_takes_parameters(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/retire", s.path(&created));
    s.post(&path, json!({})).await.problem("required", "reason");
    s.post(&path, json!({"reason": "r", "more": 1}))
        .await
        .problem("unknown_field", "more");
    assert_eq!(
        s.post(&path, json!({"reason": "old"})).await.json()["slug"],
        "old"
    );
}

async fn concurrent_transitions_succeed_once(s: &Server) {
    let path = format!("{}/publish", s.path(&s.create("a").await));
    let replies = s.parallel(25, |_| s.raw("POST", &path, &[], "")).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(
        replies
            .iter()
            .filter(|r| r.code() == (400, "invalid_transition"))
            .count(),
        24
    );
}

async fn increment_adds_its_amount(s: &Server) {
    let created = s.create("a").await;
    let reply = s
        .raw("POST", &format!("{}/bump", s.path(&created)), &[], "")
        .await;
    assert_eq!((reply.status, &reply.json()["views"]), (200, &json!(5)));
}

async fn the_client_does_not_choose_the_amount(s: &Server) {
    let created = s.create("a").await;
    s.post(&format!("{}/bump", s.path(&created)), json!({"by": 1000}))
        .await
        .problem("unknown_field", "by");
    assert_eq!(s.get(&s.path(&created)).await.json()["views"], 0);
}

async fn concurrent_increments_all_count(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/bump", s.path(&created));
    let replies = s.parallel(25, |_| s.raw("POST", &path, &[], "")).await;
    assert!(replies.iter().all(|r| r.status == 200));
    assert_eq!(s.get(&s.path(&created)).await.json()["views"], 125);
    assert_eq!(s.raw("POST", "/posts/nope/bump", &[], "").await.status, 404);
}

// The field's range is part of the statement.
async fn increment_stays_within_the_range(s: &Server) {
    s.post("/counters", json!({"id": "1", "total": 8})).await;
    s.raw("POST", "/counters/1/add-three", &[], "")
        .await
        .problem("range", "total");
    assert_eq!(s.get("/counters/1").await.json()["total"], 8);
    s.patch("/counters/1", json!({"total": 7})).await;
    assert_eq!(
        s.raw("POST", "/counters/1/add-three", &[], "").await.json()["total"],
        10
    );
}
