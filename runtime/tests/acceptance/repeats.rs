//! Idempotency: calls under one key have one effect and one response.

#![allow(missing_docs)] // test entities

use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

mod functions;

use functions::{
    a_call_continues_after_its_client_disconnects, act, responses_of_functions_are_replayed,
};

/// An order, which must not be created twice.
#[entity(
    namespace = "shop",
    version(required_on_write = false),
    unique(number),
    routes(auth = none, event(name = "shop.order"), idempotent, get(auth = none), delete(roles = ["admin"]))
)]
#[derive(Clone, Debug)]
pub struct Order {
    #[field(primary, default = uuid)]
    pub id: String,
    pub number: String,
    #[field(default = 0)]
    pub amount: i64,
    #[field(write_only)]
    pub card: Option<String>,
}

#[operation(kind = "increment", field = amount, by = 5, route(idempotent(required, ttl = "1h")))]
pub const ADD_FIVE: Operation<Order>;

#[operation(kind = "batch", action = "delete", filter = (amount == param(amount)))]
pub const CLEAR: Operation<Order>;

#[operation(kind = "lookup", fields(number = param(number)), returns = "one", route(method = "POST"))]
pub const BY_NUMBER: Operation<Order>;

pub static SHOP: Package = package!(
    name = "shop",
    entities = [entity(Order, [ADD_FIVE, CLEAR, BY_NUMBER, act])]
);

cases!(&crate::repeats::SHOP =>
    repeated_idempotent_calls_have_one_effect,
    concurrent_idempotent_calls_have_one_effect,
    refusals_are_stored_and_replayed,
    refused_calls_can_be_repeated,
    invalid_keys_are_refused,
    other_routes_ignore_the_idempotency_key,
    keys_of_different_callers_are_separate,
    every_part_of_the_request_is_compared,
    a_required_key_must_be_sent,
    responses_of_functions_are_replayed,
    a_call_continues_after_its_client_disconnects,
    concurrent_repeats_have_one_effect,
    stored_responses_expire_after_24_hours,
    the_document_lists_idempotency_keys,
);

/// A key that no other test uses.
fn key(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

async fn send(s: &Server, method: &str, path: &str, key: &str, body: &Json) -> Reply {
    s.raw(
        method,
        path,
        &[
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ],
        &body.to_string(),
    )
    .await
}

async fn post(s: &Server, key: &str, body: &Json) -> Reply {
    send(s, "POST", "/orders", key, body).await
}

fn replayed(reply: &Reply) -> bool {
    let header_value = reply.header("idempotency-replayed");
    assert!(["", "true"].contains(&&*header_value), "{reply:?}");
    header_value == "true"
}

/// Checks that two responses are equal.
fn check_equal(first: &Reply, again: &Reply) {
    assert!(!replayed(first) && replayed(again), "{first:?} {again:?}");
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    for name in ["content-type", "location", "etag", "x-event-id"] {
        assert_eq!(first.header(name), again.header(name), "{name}");
    }
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
}

async fn count(s: &Server) -> usize {
    s.walk("/orders").await.len()
}

async fn repeated_idempotent_calls_have_one_effect(s: &Server) {
    let body = json!({"number": "one", "amount": 7, "card": "4111-1111"});
    let first = post(s, "k-1", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert!(first.header("location").starts_with("/orders/") && first.header("etag") == "\"1\"");
    assert!(!first.header("x-event-id").is_empty());
    check_equal(&first, &post(s, "k-1", &body).await);
    check_equal(&first, &post(s, "k-1", &body).await);
    assert_eq!(count(s).await, 1);
    // Another body is a conflict, even if it has the same meaning.
    for other in [r#"{"number":"two"}"#.to_owned(), format!("{body} ")] {
        let reply = s
            .raw(
                "POST",
                "/orders",
                &[
                    ("content-type", "application/json"),
                    ("idempotency-key", "k-1"),
                ],
                &other,
            )
            .await;
        assert_eq!(reply.code(), (409, "idempotency_conflict"));
        assert!(!reply.headers.contains_key("retry-after") && !replayed(&reply));
    }
    // Calls without a key, or with another key, are separate calls.
    assert_eq!(
        s.post("/orders", json!({"number": "two"})).await.status,
        201
    );
    assert_eq!(
        post(s, "k-2", &json!({"number": "three"})).await.status,
        201
    );
    assert_eq!(count(s).await, 3);
    // Neither the response nor its stored copy contains the `write_only` value.
    assert!(!String::from_utf8_lossy(&first.body).contains("4111"));
    if let Some(file) = s.file() {
        use base64::Engine;
        let file = rusqlite::Connection::open(file).unwrap();
        let mut rows = file
            .prepare("SELECT body, headers, id, fingerprint FROM linchpin_idempotency")
            .unwrap();
        let rows: Vec<[String; 4]> = rows
            .query_map([], |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 2);
        for [body, rest @ ..] in rows {
            let body = String::from_utf8(
                base64::engine::general_purpose::STANDARD
                    .decode(body)
                    .unwrap(),
            )
            .unwrap();
            assert!(
                body.contains("number")
                    && !body.contains("4111")
                    && !rest.concat().contains("4111"),
                "{body} {rest:?}"
            );
        }
    }
}

async fn concurrent_idempotent_calls_have_one_effect(s: &Server) {
    let body = json!({"number": "one"});
    let replies = s.parallel(2, |_| post(s, "k", &body)).await;
    let first: Vec<&Reply> = replies
        .iter()
        .filter(|r| r.status == 201 && !replayed(r))
        .collect();
    assert_eq!(first.len(), 1, "{replies:?}");
    for other in replies.iter().filter(|r| !std::ptr::eq(*r, first[0])) {
        if other.status == 201 {
            check_equal(first[0], other);
        } else {
            assert_eq!(
                (other.code(), &*other.header("retry-after")),
                ((409, "idempotency_in_progress"), "1")
            );
        }
    }
    assert_eq!(count(s).await, 1);
}

async fn concurrent_repeats_have_one_effect(s: &Server) {
    for round in 0..10 {
        let (key, body) = (key("round"), json!({"number": format!("n{round}")}));
        let replies = s.parallel(12, |_| post(s, &key, &body)).await;
        assert_eq!(
            replies
                .iter()
                .filter(|r| r.status == 201 && !replayed(r))
                .count(),
            1,
            "{replies:?}"
        );
        assert!(
            replies
                .iter()
                .all(|r| r.status == 201 || r.code() == (409, "idempotency_in_progress"))
        );
        assert!(replayed(&post(s, &key, &body).await));
        assert_eq!(count(s).await, round + 1);
    }
}

async fn refusals_are_stored_and_replayed(s: &Server) {
    let (bad, taken) = (json!({"number": 5}), json!({"number": "one"}));
    let refused = post(s, "bad", &bad).await;
    refused.problem("type", "number");
    check_equal(&refused, &post(s, "bad", &bad).await);
    s.post("/orders", taken.clone()).await;
    let conflict = post(s, "taken", &taken).await;
    assert_eq!(conflict.code(), (409, "conflict"));
    let id = s.walk("/orders").await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // The value is free now, and the response is still the same.
    s.patch(&format!("/orders/{id}"), json!({"number": "two"}))
        .await;
    check_equal(&conflict, &post(s, "taken", &taken).await);
    let missing = send(
        s,
        "PATCH",
        "/orders/nobody",
        "missing",
        &json!({"amount": 1}),
    )
    .await;
    assert_eq!(missing.code(), (404, "not_found"));
    check_equal(
        &missing,
        &send(
            s,
            "PATCH",
            "/orders/nobody",
            "missing",
            &json!({"amount": 1}),
        )
        .await,
    );
    // The response to invalid JSON is stored, too.
    let broken = s
        .raw(
            "POST",
            "/orders",
            &[
                ("content-type", "application/json"),
                ("idempotency-key", "broken"),
            ],
            "{",
        )
        .await;
    assert_eq!(broken.code(), (400, "malformed_json"));
    check_equal(
        &broken,
        &s.raw(
            "POST",
            "/orders",
            &[
                ("content-type", "application/json"),
                ("idempotency-key", "broken"),
            ],
            "{",
        )
        .await,
    );
}

async fn refused_calls_can_be_repeated(s: &Server) {
    let id = s.post("/orders", json!({"number": "one"})).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/orders/{id}");
    // The caller is refused before the server reads the idempotency key, so no response is stored.
    let user = s.token("root", &[]);
    let delete = async |token: &str| {
        s.raw(
            "DELETE",
            &path,
            &[("authorization", token), ("idempotency-key", "d")],
            "",
        )
        .await
    };
    assert_eq!(delete(&user).await.code(), (403, "forbidden"));
    let admin = s.token("root", &["admin"]);
    let gone = delete(&admin).await;
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    check_equal(&gone, &delete(&admin).await);
    // A refused caller does not get the stored response.
    assert_eq!(delete(&user).await.code(), (403, "forbidden"));
    for (how, status) in [("panic", 500), ("fail", 503)] {
        let (key, body) = (key(how), json!({"name": key(how), "how": how}));
        let failed = send(s, "POST", "/orders/act", &key, &body).await;
        assert_eq!(failed.status, status);
        let again = send(s, "POST", "/orders/act", &key, &body).await;
        assert_eq!(
            (again.status, again.json(), replayed(&again)),
            (200, json!({"times": 2}), false)
        );
        check_equal(&again, &send(s, "POST", "/orders/act", &key, &body).await);
    }
}

async fn invalid_keys_are_refused(s: &Server) {
    let body = json!({"number": "one"}).to_string();
    let json = ("content-type", "application/json");
    let longest = "k".repeat(255);
    let too_long = "k".repeat(256);
    for (key, code) in [
        ("", "min_length"),
        (&*too_long, "max_length"),
        ("a b", "format"),
        ("clé", "format"),
        ("a\tb", "format"),
    ] {
        let reply = s
            .raw("POST", "/orders", &[json, ("idempotency-key", key)], &body)
            .await;
        reply.problem(code, "header:Idempotency-Key");
    }
    let twice = s
        .raw(
            "POST",
            "/orders",
            &[json, ("idempotency-key", "a"), ("idempotency-key", "a")],
            &body,
        )
        .await;
    twice.problem("duplicate", "header:Idempotency-Key");
    assert_eq!(count(s).await, 0);
    assert_eq!(
        s.raw(
            "POST",
            "/orders",
            &[json, ("idempotency-key", &longest)],
            &body
        )
        .await
        .status,
        201
    );
    assert!(replayed(
        &s.raw(
            "POST",
            "/orders",
            &[json, ("idempotency-key", &longest)],
            &body
        )
        .await
    ));
}

async fn other_routes_ignore_the_idempotency_key(s: &Server) {
    s.post("/orders", json!({"number": "one"})).await;
    // Reads ignore the key, even an invalid one.
    for (method, path, body) in [
        ("GET", "/orders", ""),
        ("POST", "/orders/by-number", r#"{"number":"one"}"#),
    ] {
        for key in ["a", "a b", ""] {
            let reply = s
                .raw(
                    method,
                    path,
                    &[
                        ("content-type", "application/json"),
                        ("idempotency-key", key),
                    ],
                    body,
                )
                .await;
            assert_eq!(
                (reply.status, replayed(&reply)),
                (200, false),
                "{method} {path} {key}"
            );
        }
    }
}

async fn keys_of_different_callers_are_separate(s: &Server) {
    let (a, b) = (s.token("a", &[]), s.token("b", &[]));
    let (red, blue) = (s.token_in("a", "red"), s.token_in("a", "blue"));
    let mut seen = Vec::new();
    for (n, token) in [None, Some(&a), Some(&b), Some(&red), Some(&blue)]
        .into_iter()
        .enumerate()
    {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("idempotency-key", "same"),
        ];
        headers.extend(token.map(|token| ("authorization", token.as_str())));
        let body = json!({"number": format!("n{n}")}).to_string();
        let reply = s.raw("POST", "/orders", &headers, &body).await;
        // Neither a replay nor a conflict: a response does not reveal the keys of other callers.
        assert_eq!((reply.status, replayed(&reply)), (201, false), "{n}");
        check_equal(&reply, &s.raw("POST", "/orders", &headers, &body).await);
        seen.push(reply.body);
    }
    seen.dedup();
    assert_eq!((seen.len(), count(s).await), (5, 5));
    // Each route has its own keys.
    let cleared = send(s, "POST", "/orders/clear", "same", &json!({"amount": 0})).await;
    assert_eq!(
        (cleared.status, cleared.json(), replayed(&cleared)),
        (200, json!(5), false)
    );
    check_equal(
        &cleared,
        &send(s, "POST", "/orders/clear", "same", &json!({"amount": 0})).await,
    );
}

async fn every_part_of_the_request_is_compared(s: &Server) {
    let ids: Vec<String> = futures_util::future::join_all(["one", "two"].map(|n| async move {
        s.post("/orders", json!({"number": n})).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }))
    .await;
    let body = r#"{"amount":1}"#;
    let patch = async |path: &str, kind: &str, tag: Option<&str>, body: &str| {
        let mut headers = vec![("content-type", kind), ("idempotency-key", "p")];
        headers.extend(tag.map(|tag| ("if-match", tag)));
        s.raw("PATCH", path, &headers, body).await
    };
    let (one, two) = (format!("/orders/{}", ids[0]), format!("/orders/{}", ids[1]));
    let first = patch(&one, "application/json", None, body).await;
    assert_eq!(first.status, 200);
    let others = [
        patch(&two, "application/json", None, body).await,
        patch(&format!("{one}?x=1"), "application/json", None, body).await,
        patch(&one, "application/json; charset=utf-8", None, body).await,
        patch(&one, "application/json", Some("\"1\""), body).await,
        patch(&one, "application/json", None, r#"{"amount":1 }"#).await,
    ];
    for other in others {
        assert_eq!(other.code(), (409, "idempotency_conflict"));
    }
    check_equal(&first, &patch(&one, "application/json", None, body).await);
    assert_eq!(s.get(&two).await.json()["amount"], 0);
}

async fn a_required_key_must_be_sent(s: &Server) {
    let id = s.post("/orders", json!({"number": "one"})).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/orders/{id}/add-five");
    s.raw("POST", &path, &[], "")
        .await
        .problem("required", "header:Idempotency-Key");
    let first = s.raw("POST", &path, &[("idempotency-key", "k")], "").await;
    assert_eq!((first.status, &first.json()["amount"]), (200, &json!(5)));
    check_equal(
        &first,
        &s.raw("POST", &path, &[("idempotency-key", "k")], "").await,
    );
    assert_eq!(s.get(&format!("/orders/{id}")).await.json()["amount"], 5);
}

async fn stored_responses_expire_after_24_hours(s: &Server) {
    let body = json!({"number": "one"});
    let first = post(s, "k", &body).await;
    s.advance(24 * 3_600_000 - 1);
    check_equal(&first, &post(s, "k", &body).await);
    s.advance(1);
    // This is a new call. It conflicts with the order that the first call created.
    assert_eq!(post(s, "k", &body).await.code(), (409, "conflict"));
}

async fn the_document_lists_idempotency_keys(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let create = &document["paths"]["/orders"]["post"];
    let header = |operation: &Json| {
        let all = operation["parameters"].as_array().into_iter().flatten();
        all.filter(|p| p["name"] == "Idempotency-Key")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(header(create).len(), 1);
    assert_eq!(header(create)[0]["required"], false);
    assert_eq!(
        header(&document["paths"]["/orders/{id}/add-five"]["post"])[0]["required"],
        true
    );
    assert!(header(&document["paths"]["/orders"]["get"]).is_empty());
    assert!(header(&document["paths"]["/orders/by-number"]["post"]).is_empty());
    assert!(create["responses"]["201"]["headers"]["Idempotency-Replayed"].is_object());
    assert_eq!(create["x-linchpin-event"], "shop.order");
    let conflict = create["responses"]["409"]["$ref"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    let conflict = &document["components"]["responses"][&conflict];
    assert!(conflict["headers"]["Retry-After"].is_object());
    let codes = &conflict["content"]["application/json"]["schema"]["allOf"][1]["properties"]["code"]
        ["enum"];
    assert_eq!(
        *codes,
        json!([
            "conflict",
            "idempotency_conflict",
            "idempotency_in_progress"
        ])
    );
}

/// Keys are in the store, so another process, or the same one after a restart, finds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.db").display());
    let body = json!({"number": "one"});
    let before = Server::at(&SHOP, url.clone()).await;
    let first = post(&before, "k", &body).await;
    before.stop().await;
    let after = Server::at(&SHOP, url).await;
    check_equal(&first, &post(&after, "k", &body).await);
    assert_eq!(count(&after).await, 1);
}
