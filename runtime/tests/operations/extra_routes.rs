//! `#[route]`: functions of the app with adapter, context and axum extractors, below the path of an
//! entity and under its policy.

use serde_json::json;

use crate::cases;
use crate::fixture::ticket;
use crate::server::Server;

cases!(
    a_route_may_use_every_extractor,
    refusals_of_extractors_have_the_standard_body,
    the_policy_of_a_route_applies,
    static_segments_win_over_parameters
);

async fn a_route_may_use_every_extractor(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let reply = s
        .post(
            &format!("{path}/copies/2?prefix=p%20q"),
            json!({ "category": "c" }),
        )
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let copies = reply.json();
    let slugs: Vec<_> = copies
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["slug"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(slugs, ["p q-0-of-a", "p q-1-of-a"]);
    assert_eq!(copies[0]["category"], "c");
    assert!(!reply.header("x-request-id").is_empty());
    // The generated route also returns the record that the handler created.
    assert_eq!(
        s.get(&format!("/tickets/{}", copies[1]["id"].as_str().unwrap()))
            .await
            .json(),
        copies[1]
    );
}

async fn refusals_of_extractors_have_the_standard_body(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let body = json!({ "category": "c" });
    // Errors of the framework that the function returns with `?` become the response.
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
    let conflict = s.post(&format!("{path}/copies/1"), body.clone()).await;
    assert_eq!(conflict.code(), (409, "conflict"));
    assert_eq!(
        conflict.json()["requestId"],
        conflict.header("x-request-id")
    );
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

async fn the_policy_of_a_route_applies(s: &Server) {
    let call_as = |token: Option<String>| async move {
        let headers: Vec<_> = token
            .iter()
            .map(|t| ("authorization", t.as_str()))
            .collect();
        s.raw("GET", "/tickets/whoami", &headers, "").await
    };
    assert_eq!(call_as(None).await.code(), (401, "unauthorized"));
    assert_eq!(
        call_as(Some(s.token("alice", &[]))).await.code(),
        (403, "forbidden")
    );
    let reply = call_as(Some(s.token("alice", &["agent"]))).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"alice"[..]));
    assert_eq!(
        call_as(Some("Bearer nonsense".to_owned())).await.code(),
        (401, "unauthorized")
    );
}

async fn static_segments_win_over_parameters(s: &Server) {
    // `whoami` is not the id of a record, for any method.
    assert_eq!(
        s.delete("/tickets/whoami").await.code(),
        (405, "method_not_allowed")
    );
    // All spellings of a path are equal: this one is the path of the function, not of a record.
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
