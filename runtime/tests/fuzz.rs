//! Random input over a real socket: no request causes a panic or a 500, and a refused request
//! changes nothing.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

#[path = "acceptance/fixture.rs"]
mod fixture;
#[path = "acceptance/server.rs"]
#[allow(dead_code)] // the acceptance cases use the rest of it
mod server;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value as Json;

use server::{Reply, Server};

/// Requests per property and store; raise it with `LINCHPIN_FUZZ_CASES`.
fn cases() -> u32 {
    std::env::var("LINCHPIN_FUZZ_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(200)
}

fn hostile_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "",
            "%",
            "_",
            "\\",
            "'",
            "\"",
            "$x",
            ".",
            "..",
            "\0",
            "İ",
            "ß",
            "ς",
            "😀",
            "e\u{301}",
            "\u{202e}",
            "9007199254740992",
            "-0",
            "NaN",
            "null",
            "true",
            "2026-01-02T03:04:05Z",
            "0001-01-01T00:00:00Z",
            "'; DROP TABLE blog_posts; --",
            "a,b\\,c",
            "[ne]",
        ])
        .prop_map(str::to_owned),
    ]
}

fn hostile_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        prop::sample::select(vec![
            9_007_199_254_740_991_i64,
            -9_007_199_254_740_991,
            i64::MIN,
            i64::MAX,
            0
        ])
        .prop_map(Json::from),
        hostile_text().prop_map(Json::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(hostile_text(), inner, 0..6)
                .prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

fn field() -> impl Strategy<Value = String> {
    let known = vec![
        "id",
        "slug",
        "title",
        "email",
        "status",
        "category",
        "score",
        "views",
        "tags",
        "meta",
        "live",
        "ownerId",
        "secret",
        "pin",
        "dueAt",
        "publishedAt",
        "createdAt",
        "updatedAt",
        "limit",
        "cursor",
        "sort",
        "sortDir",
        "include",
    ];
    prop_oneof![8 => prop::sample::select(known).prop_map(str::to_owned), 1 => hostile_text()]
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

async fn snapshot(server: &Server) -> Vec<Json> {
    server.walk("/posts").await
}

fn check_response(what: &str, reply: &Reply) -> Result<(), TestCaseError> {
    prop_assert!(reply.status < 500, "{what}: {reply:?}");
    if reply.status >= 400 && !reply.body.is_empty() {
        let body = reply.json();
        prop_assert!(
            body["error"].is_string() && body["code"].is_string() && body["requestId"].is_string(),
            "{what}: {body}"
        );
    }
    Ok(())
}

/// Runs a property against both stores.
fn property<S: Strategy>(
    strategy: impl Fn() -> S,
    check: impl AsyncFn(&Server, S::Value) -> Result<(), TestCaseError>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for sqlite in [false, true] {
        let server = runtime.block_on(async {
            if sqlite {
                Server::sqlite(&fixture::BLOG).await
            } else {
                Server::memory(&fixture::BLOG).await
            }
        });
        runtime.block_on(async {
            for slug in ["a", "b", "c"] {
                server.create(slug).await;
            }
        });
        let mut runner = TestRunner::new(Config {
            cases: cases(),
            max_shrink_iters: 200,
            ..Config::default()
        });
        runner
            .run(&strategy(), |value| runtime.block_on(check(&server, value)))
            .unwrap();
    }
}

#[test]
fn bodies_cause_no_server_error() {
    let member = || {
        prop::collection::btree_map(field(), hostile_json(), 0..8)
            .prop_map(|m| Json::Object(m.into_iter().collect()))
    };
    let body = move || prop_oneof![6 => member().prop_map(|j: Json| j.to_string()), 2 => hostile_json().prop_map(|j| j.to_string()), 1 => any::<String>()];
    property(body, async |server, body| {
        let before = snapshot(server).await;
        let json = [("content-type", "application/json")];
        let created = server.raw("POST", "/posts", &json, &body).await;
        check_response(&body, &created)?;
        if created.status == 201 {
            server.delete(&server.path(&created.json())).await;
        }
        prop_assert_eq!(&snapshot(server).await, &before, "{}", body);
        let patched = server
            .raw("PATCH", &server.path(&before[0]), &json, &body)
            .await;
        check_response(&body, &patched)?;
        if patched.status >= 400 {
            prop_assert_eq!(&snapshot(server).await, &before, "{}", body);
        }
        for op in ["publish", "retire", "bump", "archive"] {
            check_response(
                &body,
                &server
                    .raw(
                        "POST",
                        &format!("{}/{op}", server.path(&before[0])),
                        &json,
                        &body,
                    )
                    .await,
            )?;
        }
        Ok(())
    });
}

#[test]
fn queries_cause_no_server_error() {
    property(
        || {
            let operator = prop::sample::select(vec![
                "",
                "[ne]",
                "[gt]",
                "[gte]",
                "[lt]",
                "[lte]",
                "[in]",
                "[nin]",
                "[contains]",
                "[has]",
                "[null]",
                "[x]",
                "[",
            ]);
            prop::collection::vec((field(), operator, hostile_text()), 0..6)
        },
        async |server, pairs| {
            let query: Vec<String> = pairs
                .iter()
                .map(|(name, op, value)| format!("{}{op}={}", encode(name), encode(value)))
                .collect();
            let query = query.join("&");
            for path in [
                "/posts",
                "/posts/by-slug",
                "/posts/by-category",
                "/posts/slug-taken",
                "/posts/by-target/a/b",
            ] {
                check_response(&query, &server.get(&format!("{path}?{query}")).await)?;
            }
            Ok(())
        },
    );
}

#[test]
fn raw_queries_cause_no_server_error() {
    property(
        || "[ -~]{0,60}",
        async |server, query| {
            let query: String = query
                .chars()
                .filter(|c| {
                    !matches!(
                        c,
                        ' ' | '#' | '<' | '>' | '"' | '`' | '{' | '}' | '|' | '\\' | '^'
                    )
                })
                .collect();
            check_response(&query, &server.get(&format!("/posts?{query}")).await)
        },
    );
}

#[test]
fn random_cursors_are_refused() {
    property(
        || prop_oneof![hostile_text(), "[A-Za-z0-9_-]{0,200}"],
        async |server, cursor| {
            let reply = server
                .get(&format!("/posts?cursor={}", encode(&cursor)))
                .await;
            check_response(&cursor, &reply)?;
            prop_assert_eq!(reply.status, 400);
            Ok(())
        },
    );
}

#[test]
fn ids_cause_no_server_error() {
    property(hostile_text, async |server, id| {
        let id = encode(&id);
        let json = [("content-type", "application/json")];
        for (method, path) in [
            ("GET", format!("/posts/{id}")),
            ("DELETE", format!("/posts/{id}")),
            ("GET", format!("/counters/{id}")),
            ("POST", format!("/posts/{id}/publish")),
        ] {
            check_response(&path, &server.raw(method, &path, &[], "").await)?;
        }
        check_response(
            &id,
            &server
                .raw("PATCH", &format!("/posts/{id}"), &json, r#"{"title":"x"}"#)
                .await,
        )?;
        prop_assert_eq!(snapshot(server).await.len(), 3);
        Ok(())
    });
}
