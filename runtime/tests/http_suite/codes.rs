//! Each error code with its status, over a real socket.

use std::sync::Arc;
use std::time::Duration;

use linchpin::Error;
use linchpin::http::{Endpoint, HttpState};
use serde_json::{Value, json};

use crate::fixture::blog_with;
use crate::socket::{Received, Server};

const JSON: &str = "content-type: application/json\r\n";
const ED: &str = "content-type: application/json\r\nx-user: ed\r\nx-roles: admin\r\n";

/// A request, and the expected status line, code and details.
struct Row {
    method: &'static str,
    path: String,
    headers: String,
    body: String,
    status: u16,
    code: &'static str,
    details: Value,
}

fn row(
    method: &'static str,
    path: &str,
    headers: &str,
    body: impl Into<String>,
    (status, code): (u16, &'static str),
    details: Value,
) -> Row {
    Row {
        method,
        path: path.to_owned(),
        headers: headers.to_owned(),
        body: body.into(),
        status,
        code,
        details,
    }
}

/// Routes whose functions return the errors that a healthy store never causes.
fn faults(endpoints: &mut Vec<Endpoint>, _: &mut HttpState) {
    let add_route = |endpoints: &mut Vec<Endpoint>, name: &str| {
        let mut twin = endpoints
            .iter()
            .find(|e| e.path == "/posts/{id}" && e.name == "get")
            .unwrap()
            .clone();
        twin.path = format!("/posts/{name}/{{id}}");
        name.clone_into(&mut twin.name);
        endpoints.push(twin);
        endpoints.len() - 1
    };
    let slow = add_route(endpoints, "slow");
    endpoints[slow].policy.timeout = Duration::from_millis(20);
    endpoints[slow].run = Some(Arc::new(|_| Box::pin(std::future::pending())));
    let down = add_route(endpoints, "down");
    endpoints[down].run = Some(Arc::new(|_| {
        Box::pin(async { Err(Error::unavailable("secret-cause")) })
    }));
    let broken = add_route(endpoints, "broken");
    endpoints[broken].run = Some(Arc::new(|_| {
        Box::pin(async { Err(Error::internal("secret-cause")) })
    }));
    let panics = add_route(endpoints, "panics");
    endpoints[panics].run = Some(Arc::new(|_| panic!("secret-cause")));
}

fn rows(id: &str) -> Vec<Row> {
    let post = format!("/posts/{id}");
    let title = |length: usize| json!({ "slug": "b", "title": "x".repeat(length) }).to_string();
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    vec![
        row(
            "POST",
            "/posts",
            JSON,
            "{",
            (400, "malformed_json"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            JSON,
            "{\"slug\":\"a\",\"slug\":\"a\"}",
            (400, "malformed_json"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            JSON,
            format!("{{\"meta\":{deep}}}"),
            (400, "malformed_json"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            JSON,
            "{\"title\":\"\",\"x\":1}",
            (400, "validation_failed"),
            json!([
                ["slug", "required"],
                ["title", "min_length"],
                ["x", "unknown_field"]
            ]),
        ),
        row(
            "POST",
            "/posts",
            JSON,
            "7",
            (400, "validation_failed"),
            json!([["", "type"]]),
        ),
        row(
            "POST",
            "/posts",
            JSON,
            "",
            (400, "validation_failed"),
            json!([["slug", "required"], ["title", "required"]]),
        ),
        row(
            "GET",
            "/posts?limit=0",
            "",
            "",
            (400, "validation_failed"),
            json!([["query:limit", "range"]]),
        ),
        row(
            "GET",
            "/posts/by-category/x/y",
            "",
            "",
            (400, "validation_failed"),
            json!([["path:score", "type"]]),
        ),
        row(
            "GET",
            "/posts?b=1&a=1",
            "",
            "",
            (400, "unknown_parameter"),
            json!([
                ["query:a", "unknown_parameter"],
                ["query:b", "unknown_parameter"]
            ]),
        ),
        row(
            "GET",
            "/posts?cursor=AAAA",
            "",
            "",
            (400, "invalid_cursor"),
            Value::Null,
        ),
        row(
            "GET",
            &format!("/posts?cursor={}", "A".repeat(2049)),
            "",
            "",
            (400, "invalid_cursor"),
            Value::Null,
        ),
        row(
            "POST",
            &format!("{post}/retire"),
            "",
            "",
            (400, "invalid_transition"),
            json!([["status", "current"], ["status", "expected"]]),
        ),
        row("GET", "/notes", "", "", (401, "unauthorized"), Value::Null),
        row(
            "DELETE",
            "/notes/a",
            "x-user: u\r\n",
            "",
            (403, "forbidden"),
            Value::Null,
        ),
        row(
            "GET",
            "/posts/none",
            "",
            "",
            (404, "not_found"),
            Value::Null,
        ),
        row("GET", "/none", "", "", (404, "not_found"), Value::Null),
        row(
            "PATCH",
            "/posts/none",
            JSON,
            "{\"title\":\"t\"}",
            (404, "not_found"),
            Value::Null,
        ),
        row(
            "PUT",
            &post,
            "",
            "",
            (405, "method_not_allowed"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            JSON,
            "{\"slug\":\"a\",\"title\":\"t\"}",
            (409, "conflict"),
            json!([["slug", "unique"]]),
        ),
        row(
            "POST",
            "/notes",
            ED,
            "{\"id\":\"a\",\"text\":\"t\"}",
            (409, "conflict"),
            json!([["id", "unique"]]),
        ),
        row(
            "PATCH",
            "/notes/a",
            &format!("{ED}if-match: \"7\"\r\n"),
            "{\"text\":\"n\"}",
            (412, "precondition_failed"),
            Value::Null,
        ),
        row(
            "DELETE",
            "/notes/a",
            &format!("{ED}if-match: \"7\"\r\n"),
            "",
            (412, "precondition_failed"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            JSON,
            title(2 << 20),
            (413, "body_too_large"),
            Value::Null,
        ),
        row(
            "GET",
            &format!("/posts?slug={}", "x".repeat(8192)),
            "",
            "",
            (414, "uri_too_long"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            "",
            title(1),
            (415, "unsupported_media_type"),
            Value::Null,
        ),
        row(
            "POST",
            "/posts",
            "content-type: text/plain\r\n",
            title(1),
            (415, "unsupported_media_type"),
            Value::Null,
        ),
        row(
            "PATCH",
            "/notes/a",
            ED,
            "{\"text\":\"n\"}",
            (428, "precondition_required"),
            Value::Null,
        ),
        row(
            "DELETE",
            "/notes/a",
            ED,
            "",
            (428, "precondition_required"),
            Value::Null,
        ),
        row(
            "GET",
            "/posts/broken/x",
            "",
            "",
            (500, "internal"),
            Value::Null,
        ),
        row(
            "GET",
            "/posts/panics/x",
            "",
            "",
            (500, "internal"),
            Value::Null,
        ),
        row(
            "GET",
            "/posts/down/x",
            "",
            "",
            (503, "unavailable"),
            Value::Null,
        ),
        row(
            "GET",
            "/posts/slow/x",
            "",
            "",
            (504, "timeout"),
            Value::Null,
        ),
    ]
}

fn check(row: &Row, answer: &Received) {
    let context = format!(
        "{} {} -> {}",
        row.method,
        &row.path[..row.path.len().min(60)],
        answer.text()
    );
    assert_eq!(answer.status, row.status, "{context}");
    assert_eq!(
        answer.header("content-type"),
        "application/json",
        "{context}"
    );
    let body = answer.json();
    assert_eq!(body["code"], row.code, "{context}");
    assert_eq!(
        body["requestId"],
        answer.header("x-request-id"),
        "{context}"
    );
    assert!(
        body["error"].as_str().is_some_and(|t| !t.is_empty()),
        "{context}"
    );
    let details = body["details"].as_array().map(|list| {
        list.iter()
            .map(|d| json!([d["path"], d["code"]]))
            .collect::<Vec<_>>()
    });
    assert_eq!(
        details.map_or(Value::Null, Value::from),
        row.details,
        "{context}"
    );
    let keys = body.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(keys, if row.details.is_null() { 3 } else { 4 }, "{context}");
    assert_eq!(
        answer.header("www-authenticate"),
        if row.code == "unauthorized" {
            "Bearer"
        } else {
            ""
        },
        "{context}"
    );
    assert_eq!(
        answer.header("retry-after"),
        if row.code == "unavailable" { "1" } else { "" },
        "{context}"
    );
    assert_eq!(
        answer.header("allow").is_empty(),
        row.status != 405,
        "{context}"
    );
    assert!(!answer.text().contains("secret-cause"), "{context}");
}

#[tokio::test]
async fn every_error_code_has_its_response() {
    let app = blog_with(faults).await;
    let id = app.post("a", json!({})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let body = json!({ "id": "a", "text": "t" }).to_string();
    let note = app
        .send(
            "POST",
            "/notes",
            &[("content-type", "application/json"), ("x-user", "ed")],
            body,
        )
        .await;
    assert_eq!(note.status, 201);
    let server = Server::start(app).await;
    let before = (
        server.get("/posts?limit=3").await.json(),
        server.get("/notes/a").await.json(),
    );
    for row in rows(&id) {
        let answer = server
            .send(row.method, &row.path, &row.headers, &row.body)
            .await;
        check(&row, &answer);
    }
    // No refused request changed anything.
    assert_eq!(
        (
            server.get("/posts?limit=3").await.json(),
            server.get("/notes/a").await.json()
        ),
        before
    );
}
