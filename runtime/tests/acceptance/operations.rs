//! TRAN-*, INC-*: writes by operation.

use serde_json::json;

use crate::cases;
use crate::server::Server;

cases!(tran_01, tran_02, tran_03, tran_04, tran_05, tran_06, tran_07, inc_01, inc_02, inc_03, inc_range);

async fn tran_01(s: &Server) {
    let created = s.create("a").await;
    s.advance(1000);
    let reply = s.raw("POST", &format!("{}/publish", s.path(&created)), &[], "").await;
    assert_eq!(reply.status, 200);
    let body = reply.json();
    assert_eq!(body["status"], "published");
    assert_eq!(body["publishedAt"], body["updatedAt"]);
    assert!(body["updatedAt"].as_str() > created["updatedAt"].as_str());
}

async fn tran_02(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/publish", s.path(&created));
    let published = s.raw("POST", &path, &[], "").await.json();
    s.advance(1000);
    let reply = s.raw("POST", &path, &[], "").await;
    assert_eq!(reply.code(), (400, "invalid_transition"));
    let details = reply.json()["details"].clone();
    let of = |code: &str| details.as_array().unwrap().iter().find(|d| d["code"] == code).cloned().unwrap();
    assert_eq!((&of("current")["message"], &of("expected")["message"]), (&json!("published"), &json!("draft")));
    assert_eq!(of("current")["path"], "status");
    assert_eq!(s.get(&s.path(&created)).await.json(), published);
}

async fn tran_03(s: &Server) {
    assert_eq!(s.raw("POST", "/posts/nope/publish", &[], "").await.code(), (404, "not_found"));
}

async fn tran_04(s: &Server) {
    let (a, b) = (s.create("a").await, s.create("b").await);
    s.raw("POST", &format!("{}/publish", s.path(&b)), &[], "").await;
    for record in [&a, &b] {
        assert_eq!(s.raw("POST", &format!("{}/archive", s.path(record)), &[], "").await.status, 200);
    }
    let reply = s.raw("POST", &format!("{}/archive", s.path(&a)), &[], "").await;
    assert_eq!(reply.code(), (400, "invalid_transition"));
    assert_eq!(reply.problems().iter().filter(|(_, code)| code == "expected").count(), 2);
}

async fn tran_05(s: &Server) {
    let created = s.create("a").await;
    let reply = s.raw("POST", &format!("{}/release", s.path(&created)), &[], "").await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"true"[..]));
}

async fn tran_06(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/retire", s.path(&created));
    s.post(&path, json!({})).await.problem("required", "reason");
    s.post(&path, json!({"reason": "r", "more": 1})).await.problem("unknown_field", "more");
    assert_eq!(s.post(&path, json!({"reason": "old"})).await.json()["slug"], "old");
}

async fn tran_07(s: &Server) {
    let path = format!("{}/publish", s.path(&s.create("a").await));
    let replies = s.parallel(25, |_| s.raw("POST", &path, &[], "")).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.code() == (400, "invalid_transition")).count(), 24);
}

async fn inc_01(s: &Server) {
    let created = s.create("a").await;
    let reply = s.raw("POST", &format!("{}/bump", s.path(&created)), &[], "").await;
    assert_eq!((reply.status, &reply.json()["views"]), (200, &json!(5)));
}

async fn inc_02(s: &Server) {
    let created = s.create("a").await;
    s.post(&format!("{}/bump", s.path(&created)), json!({"by": 1000})).await.problem("unknown_field", "by");
    assert_eq!(s.get(&s.path(&created)).await.json()["views"], 0);
}

async fn inc_03(s: &Server) {
    let created = s.create("a").await;
    let path = format!("{}/bump", s.path(&created));
    let replies = s.parallel(25, |_| s.raw("POST", &path, &[], "")).await;
    assert!(replies.iter().all(|r| r.status == 200));
    assert_eq!(s.get(&s.path(&created)).await.json()["views"], 125);
    assert_eq!(s.raw("POST", "/posts/nope/bump", &[], "").await.status, 404);
}

// No id in the list, but a rule of section 7.14: the field's range stands in the statement.
async fn inc_range(s: &Server) {
    s.post("/counters", json!({"id": "1", "total": 8})).await;
    s.raw("POST", "/counters/1/add-three", &[], "").await.problem("range", "total");
    assert_eq!(s.get("/counters/1").await.json()["total"], 8);
    s.patch("/counters/1", json!({"total": 7})).await;
    assert_eq!(s.raw("POST", "/counters/1/add-three", &[], "").await.json()["total"], 10);
}
