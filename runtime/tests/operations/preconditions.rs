//! `If-Match` on operations that write one record: checked if sent, never required.

use serde_json::json;

use crate::cases;
use crate::fixture::{call, ticket};
use crate::server::Server;

cases!(
    operations_do_not_require_if_match,
    operations_check_if_match,
    malformed_preconditions_are_refused,
    record_version_and_state_are_checked_in_order,
    operations_with_boolean_responses_check_if_match,
    a_record_found_by_another_unique_checks_if_match,
    one_of_two_concurrent_calls_succeeds,
    reading_operations_ignore_if_match,
);

const OPERATIONS: [(&str, &str); 4] = [
    ("POST", "close"),
    ("POST", "hit"),
    ("POST", "restock"),
    ("PATCH", "weight"),
];

async fn operations_do_not_require_if_match(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    for (version, (method, name)) in (2..).zip(OPERATIONS) {
        let reply = s.raw(method, &format!("{path}/{name}"), &[], "").await;
        assert_eq!(
            (reply.status, reply.header("etag")),
            (200, format!("\"{version}\"")),
            "{name}: {reply:?}"
        );
        assert_eq!(reply.json()["version"], version, "{name}");
    }
}

async fn operations_check_if_match(s: &Server) {
    for (method, name) in OPERATIONS {
        let path = ticket(s, name, json!({})).await;
        let url = format!("{path}/{name}");
        for stale in ["\"0\"", "\"2\"", "\"9223372036854775807\""] {
            let reply = s.raw(method, &url, &[("if-match", stale)], "").await;
            assert_eq!(reply.code(), (412, "precondition_failed"), "{name} {stale}");
        }
        let untouched = s.get(&path).await.json();
        assert_eq!(
            (
                &untouched["version"],
                &untouched["hits"],
                &untouched["state"]
            ),
            (&json!(1), &json!(0), &json!("open")),
            "{name}"
        );
        let reply = s.raw(method, &url, &[("if-match", "\"1\"")], "").await;
        assert_eq!(
            (reply.status, reply.header("etag")),
            (200, "\"2\"".to_owned()),
            "{name}: {reply:?}"
        );
    }
}

async fn malformed_preconditions_are_refused(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    for (method, name) in OPERATIONS {
        for bad in [
            "*",
            "W/\"1\"",
            "1",
            "\"1\", \"2\"",
            "\"1\",",
            "\"01\"",
            "\"x\"",
            "\"\"",
            "\"-1\"",
            "\"9223372036854775808\"",
        ] {
            let reply = s
                .raw(method, &format!("{path}/{name}"), &[("if-match", bad)], "")
                .await;
            reply.problem("format", "header:If-Match");
        }
        // Two headers are a list, too.
        let reply = s
            .raw(
                method,
                &format!("{path}/{name}"),
                &[("if-match", "\"1\""), ("if-match", "\"1\"")],
                "",
            )
            .await;
        reply.problem("format", "header:If-Match");
    }
    assert_eq!(s.get(&path).await.json()["version"], 1);
}

async fn record_version_and_state_are_checked_in_order(s: &Server) {
    // The record is checked first, then the tag, then the state: an invisible record has no
    // version.
    assert_eq!(
        s.raw("POST", "/tickets/nope/close", &[("if-match", "\"1\"")], "")
            .await
            .code(),
        (404, "not_found")
    );
    let path = ticket(s, "a", json!({ "state": "closed", "stock": 10 })).await;
    let stale = [("if-match", "\"7\"")];
    assert_eq!(
        s.raw("POST", &format!("{path}/close"), &stale, "")
            .await
            .code(),
        (412, "precondition_failed")
    );
    assert_eq!(
        s.raw("POST", &format!("{path}/restock"), &stale, "")
            .await
            .code(),
        (412, "precondition_failed")
    );
    let fresh = [("if-match", "\"1\"")];
    assert_eq!(
        s.raw("POST", &format!("{path}/close"), &fresh, "")
            .await
            .code(),
        (400, "invalid_transition")
    );
    s.raw("POST", &format!("{path}/restock"), &fresh, "")
        .await
        .problem("range", "stock");
    // An invalid tag and an invalid body are reported together.
    let headers = [("if-match", "*"), ("content-type", "application/json")];
    let reply = s
        .raw("POST", &format!("{path}/close"), &headers, r#"{"bogus":1}"#)
        .await;
    assert_eq!(
        reply.problems(),
        [("bogus", "unknown_field"), ("header:If-Match", "format")]
            .map(|(p, c)| (p.to_owned(), c.to_owned()))
    );
}

async fn operations_with_boolean_responses_check_if_match(s: &Server) {
    let path = ticket(s, "a", json!({ "state": "closed" })).await;
    let url = format!("{path}/state/open");
    assert_eq!(
        s.raw("PUT", &url, &[("if-match", "\"4\"")], "")
            .await
            .code(),
        (412, "precondition_failed")
    );
    let reply = s.raw("PUT", &url, &[("if-match", "\"1\"")], "").await;
    assert_eq!((reply.status, reply.json()), (200, json!(true)));
    assert_eq!(s.get(&path).await.json()["version"], 2);
}

async fn a_record_found_by_another_unique_checks_if_match(s: &Server) {
    let path = ticket(s, "a b", json!({})).await;
    let url = "/tickets/by-name/a%20b/close";
    assert_eq!(
        s.raw("POST", url, &[("if-match", "\"3\"")], "")
            .await
            .code(),
        (412, "precondition_failed")
    );
    assert_eq!(
        s.raw("POST", url, &[("if-match", "\"1\"")], "")
            .await
            .status,
        200
    );
    assert_eq!(s.get(&path).await.json()["state"], "closed");
    assert_eq!(
        call(s, "/tickets/by-name/zzz/close").await.code(),
        (404, "not_found")
    );
}

async fn one_of_two_concurrent_calls_succeeds(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let url = format!("{path}/hit");
    let replies = s
        .parallel(10, |_| s.raw("POST", &url, &[("if-match", "\"1\"")], ""))
        .await;
    let won = replies.iter().filter(|r| r.status == 200).count();
    let lost = replies.iter().filter(|r| r.status == 412).count();
    assert_eq!((won, lost), (1, 9));
    assert_eq!(s.get(&path).await.json()["hits"], 1);
}

async fn reading_operations_ignore_if_match(s: &Server) {
    ticket(s, "a", json!({ "category": "c" })).await;
    let headers = [("if-match", "*"), ("content-type", "application/json")];
    assert_eq!(
        s.raw("POST", "/tickets/search", &headers, r#"{"category":"c"}"#)
            .await
            .status,
        200
    );
    assert_eq!(
        s.raw("POST", "/tickets/taken", &headers, r#"{"slug":"a"}"#)
            .await
            .status,
        200
    );
}
