//! `#[route]`: a function of the user with the adapter, the context and axum's extractors, below an
//! entity, under its policy.

use serde_json::json;

use crate::cases;
use crate::fixture::ticket;
use crate::server::Server;

cases!(
    every_extractor,
    what_extractors_refuse,
    the_policy_holds,
    static_beside_parameters
);

async fn every_extractor(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let reply = s
        .post(
            &format!("{path}/copies/2?prefix=p%20q"),
            json!({ "category": "c" }),
        )
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let made = reply.json();
    let slugs: Vec<_> = made
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["slug"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(slugs, ["p q-0-of-a", "p q-1-of-a"]);
    assert_eq!(made[0]["category"], "c");
    assert!(!reply.header("x-request-id").is_empty());
    // Everybody sees the record that the handler created.
    assert_eq!(
        s.get(&format!("/tickets/{}", made[1]["id"].as_str().unwrap()))
            .await
            .json(),
        made[1]
    );
}

async fn what_extractors_refuse(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let body = json!({ "category": "c" });
    // Errors of the framework, returned with `?`, become its answers.
    assert_eq!(
        s.post("/tickets/nope/copies/1", body.clone()).await.code(),
        (404, "not_found")
    );
    assert_eq!(
        s.post(&format!("{path}/copies/1"), body.clone())
            .await
            .status,
        201
    );
    let taken = s.post(&format!("{path}/copies/1"), body.clone()).await;
    assert_eq!(taken.code(), (409, "conflict"));
    assert_eq!(taken.json()["requestId"], taken.header("x-request-id"));
    // Errors of axum's extractors have the standard status and body.
    for (path, headers, body, status) in [
        (
            format!("{path}/copies/300"),
            vec![("content-type", "application/json")],
            body.to_string(),
            400,
        ),
        (
            format!("{path}/copies/1?x=1"),
            vec![("content-type", "application/json")],
            body.to_string(),
            400,
        ),
        (
            format!("{path}/copies/1"),
            vec![("content-type", "application/json")],
            "{".to_owned(),
            400,
        ),
        (
            format!("{path}/copies/1"),
            vec![("content-type", "application/json")],
            "{}".to_owned(),
            400,
        ),
        (format!("{path}/copies/1"), vec![], body.to_string(), 415),
        (
            format!("{path}/copies/1"),
            vec![("content-type", "application/json")],
            format!("{{\"category\":\"{}\"}}", "x".repeat(80)),
            413,
        ),
    ] {
        let reply = s.raw("POST", &path, &headers, &body).await;
        assert_eq!(reply.status, status, "{path} {body}: {reply:?}");
        assert_eq!(
            reply.json()["requestId"],
            reply.header("x-request-id"),
            "{reply:?}"
        );
        assert!(reply.json()["code"].is_string(), "{reply:?}");
    }
}

async fn the_policy_holds(s: &Server) {
    let who = |token: Option<String>| async move {
        let headers: Vec<_> = token
            .iter()
            .map(|t| ("authorization", t.as_str()))
            .collect();
        s.raw("GET", "/tickets/whoami", &headers, "").await
    };
    assert_eq!(who(None).await.code(), (401, "unauthorized"));
    assert_eq!(
        who(Some(s.token("alice", &[]))).await.code(),
        (403, "forbidden")
    );
    let reply = who(Some(s.token("alice", &["agent"]))).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"alice"[..]));
    assert_eq!(
        who(Some("Bearer nonsense".to_owned())).await.code(),
        (401, "unauthorized")
    );
}

async fn static_beside_parameters(s: &Server) {
    // `whoami` is no record's id, in no method.
    assert_eq!(
        s.delete("/tickets/whoami").await.code(),
        (405, "method_not_allowed")
    );
    // A path is the same in every spelling: this one names the function, not a record.
    assert_eq!(
        s.get("/tickets/who%61mi").await.code(),
        (401, "unauthorized")
    );
    assert_eq!(
        s.delete("/tickets/who%61mi").await.code(),
        (405, "method_not_allowed")
    );
    // An encoded slash is part of its segment.
    assert_eq!(s.get("/tickets%2Fwhoami").await.code(), (404, "not_found"));
}
