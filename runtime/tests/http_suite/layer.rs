//! Handling of every request: ids, limits, methods, time, panics, the log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::Error;
use serde_json::json;

use crate::fixture::{blog, blog_with};

#[tokio::test]
async fn every_response_has_a_request_id() {
    let app = blog().await;
    for path in [
        "/posts",
        "/posts/none",
        "/nowhere",
        "/posts/export",
        "/plugin/hello",
        "/posts?x=1",
    ] {
        let echoed = app
            .send("GET", path, &[("x-request-id", "inbound-1")], "")
            .await;
        assert_eq!(echoed.header("x-request-id"), "inbound-1", "{path}");
        if !echoed.status.is_success() {
            assert_eq!(echoed.json()["requestId"], "inbound-1", "{path}");
        }
        let fresh = app
            .send("GET", path, &[("x-request-id", "not valid")], "")
            .await;
        assert_eq!(fresh.header("x-request-id").len(), 36, "{path}");
    }
}

#[tokio::test]
async fn paths_are_exact() {
    let app = blog().await;
    for path in [
        "/",
        "/posts/",
        "/Posts",
        "//posts",
        "/posts//publish",
        "/posts/a/b/c",
        "/posts/a/PUBLISH",
    ] {
        assert_eq!(app.get(path).await.summary(), "404 not_found", "{path}");
    }
    assert_eq!(
        app.get("/nowhere").await.header("content-type"),
        "application/json"
    );
}

#[tokio::test]
async fn a_405_lists_the_allowed_methods() {
    let app = blog().await;
    for (method, path, allow) in [
        ("PUT", "/posts/x", "GET, HEAD, PATCH, DELETE, OPTIONS"),
        ("DELETE", "/posts", "GET, HEAD, POST, OPTIONS"),
        ("TRACE", "/posts", "GET, HEAD, POST, OPTIONS"),
        ("BREW", "/posts/x/publish", "POST, OPTIONS"),
        ("GET", "/posts/x/publish", "POST, OPTIONS"),
    ] {
        let answer = app.send(method, path, &[], "").await;
        assert_eq!(
            (answer.summary().as_str(), answer.header("allow")),
            ("405 method_not_allowed", allow),
            "{method} {path}"
        );
        let options = app.send("OPTIONS", path, &[], "").await;
        assert_eq!(
            (
                options.status.as_u16(),
                options.header("allow"),
                options.body.len()
            ),
            (204, allow, 0)
        );
    }
    assert_eq!(
        app.send("OPTIONS", "/nowhere", &[], "").await.summary(),
        "404 not_found"
    );
}

#[tokio::test]
async fn head_is_get_without_body() {
    let app = blog().await;
    app.post("a", json!({})).await;
    for path in ["/posts", "/posts/none", "/posts?x=1", "/nowhere"] {
        let (get, head) = (app.get(path).await, app.send("HEAD", path, &[], "").await);
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(
            head.header("content-type"),
            get.header("content-type"),
            "{path}"
        );
        // Bodies of errors contain a request id, whose length is constant.
        assert_eq!(
            head.header("content-length"),
            get.body.len().to_string(),
            "{path}"
        );
    }
}

#[tokio::test]
async fn long_queries_are_refused() {
    let app = blog().await;
    let query = |length: usize| format!("/posts?slug={}", "x".repeat(length - 5));
    assert_eq!(app.get(&query(8192)).await.summary(), "200");
    assert_eq!(app.get(&query(8193)).await.summary(), "414 uri_too_long");
    assert_eq!(
        app.get(&format!("/nowhere?{}", "x".repeat(8193)))
            .await
            .summary(),
        "414 uri_too_long"
    );
}

#[tokio::test]
async fn slow_calls_time_out() {
    let app = blog_with(|endpoints, _| {
        let get = endpoints
            .iter_mut()
            .find(|e| e.path == "/posts/{id}" && e.name == "get")
            .unwrap();
        get.policy.timeout = Duration::from_millis(50);
        get.run = Some(Arc::new(|_| Box::pin(std::future::pending())));
    })
    .await;
    let answer = app.get("/posts/x").await;
    assert_eq!(answer.summary(), "504 timeout");
    assert_eq!(app.get("/posts").await.summary(), "200");
}

#[tokio::test]
async fn responses_contain_no_panics_and_causes() {
    let app = blog_with(|endpoints, _| {
        let get = endpoints
            .iter_mut()
            .find(|e| e.path == "/posts/{id}" && e.name == "get")
            .unwrap();
        get.run = Some(Arc::new(|call| match call.inputs {
            linchpin::http::Inputs::Get(linchpin::Value::Text(id)) if id == "panic" => {
                panic!("the secret of {id}")
            }
            linchpin::http::Inputs::Get(linchpin::Value::Text(id)) if id == "down" => {
                Box::pin(async { Err(Error::unavailable("the secret of the pool")) })
            }
            _ => Box::pin(async { Err(Error::internal("the secret of the disk")) }),
        }));
    })
    .await;
    for (path, expected) in [
        ("/posts/panic", "500 internal"),
        ("/posts/x", "500 internal"),
        ("/posts/down", "503 unavailable"),
    ] {
        let answer = app.get(path).await;
        assert_eq!(answer.summary(), expected);
        assert!(
            !String::from_utf8_lossy(&answer.body).contains("secret"),
            "{path}"
        );
        assert_eq!(
            answer.header("retry-after"),
            if path == "/posts/down" { "1" } else { "" }
        );
    }
    assert_eq!(app.get("/posts/x").await.json()["error"], "Internal error");
    assert_eq!(
        app.get("/posts").await.summary(),
        "200",
        "the service still serves"
    );
}

/// Collects formatted events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_request_has_one_log_event_without_values() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing::Level::TRACE);
    // The subscriber is global, because tracing caches for each call site whether a subscriber
    // wants its events. Events of other tests are skipped below.
    tracing::subscriber::set_global_default(
        subscriber.with_writer(move || writer.clone()).finish(),
    )
    .unwrap();
    let app = blog_with(|endpoints, _| {
        let list = endpoints
            .iter_mut()
            .find(|e| e.path == "/notes" && e.name == "list")
            .unwrap();
        list.run = Some(Arc::new(|_| {
            Box::pin(async { Err(Error::internal(std::io::Error::other("disk full"))) })
        }));
    })
    .await;
    let id = [("x-request-id", "the-request"), ("x-user", "token-value")];
    app.send("GET", "/posts?slug=query-value", &id, "").await;
    app.send("GET", "/posts/path-value", &id, "").await;
    app.send("GET", "/nowhere/path-value", &id, "").await;
    app.send("GET", "/notes", &id, "").await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let text = text
        .lines()
        .filter(|l| l.contains("the-request"))
        .collect::<Vec<_>>()
        .join("\n");
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let seen: Vec<_> = events
        .iter()
        .map(|e| {
            (
                e["level"].as_str().unwrap(),
                e["method"].as_str().unwrap(),
                e["route"].as_str().unwrap(),
                e["status"].as_u64().unwrap(),
                e["code"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("DEBUG", "GET", "/posts", 200, ""),
            ("INFO", "GET", "/posts/{id}", 404, "not_found"),
            ("INFO", "GET", "", 404, "not_found"),
            ("ERROR", "GET", "/notes", 500, "internal"),
        ]
    );
    assert!(
        events[3]["cause"].as_str().unwrap().contains("disk full"),
        "{}",
        events[3]
    );
    assert!(
        events
            .iter()
            .all(|e| e["request_id"] == "the-request" && e["duration_us"].is_u64())
    );
    for value in ["query-value", "path-value", "token-value"] {
        assert!(!text.contains(value), "{value} in {text}");
    }
}

#[tokio::test]
async fn other_origins_read_responses_only_if_configured() {
    const PAGE: (&str, &str) = ("origin", "https://app.example");
    let cors_headers = |answer: &crate::fixture::Answer| {
        let names = answer
            .headers
            .keys()
            .filter(|n| n.as_str().starts_with("access-control-"));
        names
            .map(|n| format!("{n}={}", answer.header(n.as_str())))
            .collect::<Vec<_>>()
    };
    let closed = blog().await.send("GET", "/posts", &[PAGE], "").await;
    assert_eq!((cors_headers(&closed), closed.header("vary")), (vec![], ""));

    let app = blog_with(|_, state| {
        state.cors = vec![linchpin::http::Cors {
            origins: vec!["https://app.example".to_owned()],
            credentials: false,
        }];
    })
    .await;
    for path in ["/posts", "/posts/none", "/nowhere", "/notes"] {
        let answer = app.send("GET", path, &[PAGE], "").await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            "https://app.example",
            "{path}"
        );
        assert!(
            answer
                .header("access-control-expose-headers")
                .contains("etag"),
            "{path}"
        );
        assert!(
            answer
                .header("access-control-expose-headers")
                .contains("www-authenticate"),
            "{path}"
        );
        assert_eq!(answer.header("vary"), "origin", "{path}");
    }
    for origin in [
        "https://app.example.evil",
        "https://APP.example",
        "null",
        "http://app.example",
    ] {
        let answer = app.send("GET", "/posts", &[("origin", origin)], "").await;
        assert_eq!(
            (cors_headers(&answer), answer.header("vary")),
            (vec![], "origin"),
            "{origin}"
        );
    }
    assert_eq!(cors_headers(&app.get("/posts").await), Vec::<String>::new());

    let preflight_headers = [
        PAGE,
        ("access-control-request-method", "PATCH"),
        ("access-control-request-headers", "content-type, if-match"),
    ];
    let preflight = app
        .send("OPTIONS", "/notes/a", &preflight_headers, "")
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        "GET, HEAD, PATCH, DELETE, OPTIONS"
    );
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        "content-type, if-match"
    );
    assert_eq!(preflight.header("access-control-max-age"), "600");
    assert_eq!(preflight.header("access-control-allow-credentials"), "");
}
