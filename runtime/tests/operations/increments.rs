//! `increment` over HTTP: the store adds, within the bounds of the field and of safe integers.

use serde_json::json;

use crate::cases;
use crate::fixture::{call, ticket};
use crate::server::Server;

cases!(
    parallel_calls_add_up,
    bounds_hold_under_concurrency,
    increment_bodies_are_refused,
    increments_beyond_safe_integers_are_refused,
    increments_add_to_floats_and_null,
    a_refusal_changes_nothing
);

const SAFE: i64 = 9_007_199_254_740_991;

async fn parallel_calls_add_up(s: &Server) {
    let path = ticket(s, "a", json!({ "hits": -20 })).await;
    let url = format!("{path}/hit");
    let replies = s.parallel(60, |_| call(s, &url)).await;
    assert!(replies.iter().all(|r| r.status == 200));
    // Every response has a different sum: no call was lost or counted twice.
    let mut sums: Vec<i64> = replies
        .iter()
        .map(|r| r.json()["hits"].as_i64().unwrap())
        .collect();
    sums.sort_unstable();
    assert_eq!(sums, (-19..=40).collect::<Vec<_>>());
    let record = s.get(&path).await.json();
    assert_eq!(
        (&record["hits"], &record["version"]),
        (&json!(40), &json!(61))
    );
}

async fn bounds_hold_under_concurrency(s: &Server) {
    let path = ticket(s, "a", json!({ "stock": 10 })).await;
    let url = format!("{path}/sell");
    // 10, 8, .. -2: six fit above the minimum of -3, all others are refused.
    let replies = s.parallel(20, |_| call(s, &url)).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 6);
    for refused in replies.iter().filter(|r| r.status != 200) {
        refused.problem("range", "stock");
    }
    assert_eq!(s.get(&path).await.json()["stock"], -2);
}

async fn increment_bodies_are_refused(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let url = format!("{path}/hit");
    for body in [
        json!({ "by": 1000 }),
        json!({ "hits": 5 }),
        json!({ "id": "x" }),
    ] {
        let name = body.as_object().unwrap().keys().next().unwrap().clone();
        s.post(&url, body).await.problem("unknown_field", &name);
    }
    assert_eq!(
        call(s, &format!("{url}?by=1000")).await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(s.get(&path).await.json()["hits"], 0);
    assert_eq!(s.post(&url, json!({})).await.json()["hits"], 1);
    assert_eq!(s.get(&url).await.code(), (405, "method_not_allowed"));
}

async fn increments_beyond_safe_integers_are_refused(s: &Server) {
    let path = ticket(s, "a", json!({ "hits": SAFE - 1 })).await;
    let url = format!("{path}/hit");
    assert_eq!(call(s, &url).await.json()["hits"], SAFE);
    call(s, &url).await.problem("range", "hits");
    assert_eq!(s.get(&path).await.json()["hits"], SAFE);

    // The largest step: the sum fits for values up to zero, and never overflows an integer of the
    // store.
    for (slug, from, fits) in [
        ("b", 0, true),
        ("c", 1, false),
        ("d", -SAFE, true),
        ("e", SAFE, false),
    ] {
        let path = ticket(s, slug, json!({ "hits": from })).await;
        let reply = call(s, &format!("{path}/leap")).await;
        if fits {
            assert_eq!(reply.json()["hits"], from + SAFE, "{from}");
        } else {
            reply.problem("range", "hits");
            assert_eq!(s.get(&path).await.json()["hits"], from);
        }
    }
}

async fn increments_add_to_floats_and_null(s: &Server) {
    let path = ticket(s, "a", json!({ "weight": 0.5 })).await;
    assert_eq!(
        s.raw("PATCH", &format!("{path}/weight"), &[], "")
            .await
            .json()["weight"],
        0.75
    );
    assert_eq!(s.get(&path).await.json()["votes"], json!(null));
    // Null counts as 0.
    assert_eq!(
        call(s, &format!("{path}/downvote")).await.json()["votes"],
        -1
    );
    assert_eq!(
        call(s, &format!("{path}/downvote")).await.json()["votes"],
        -2
    );
    // The value is so large that the sum is rounded to the same float. Either the call is refused,
    // or the value stays the same.
    let path = ticket(s, "b", json!({ "weight": f64::MAX })).await;
    let reply = s.raw("PATCH", &format!("{path}/weight"), &[], "").await;
    assert!(
        reply.status == 400 || reply.json()["weight"] == json!(f64::MAX),
        "{reply:?}"
    );
}

async fn a_refusal_changes_nothing(s: &Server) {
    let path = ticket(s, "a", json!({ "stock": 7 })).await;
    let before = s.get(&path).await.json();
    s.advance(1000);
    call(s, &format!("{path}/restock"))
        .await
        .problem("range", "stock");
    assert_eq!(
        s.get(&path).await.json(),
        before,
        "neither the version nor updatedAt changes"
    );
    s.raw(
        "PATCH",
        &path,
        &[("content-type", "application/json"), ("if-match", "\"1\"")],
        r#"{"stock":6}"#,
    )
    .await;
    assert_eq!(
        call(s, &format!("{path}/restock")).await.json()["stock"],
        10
    );
    assert_eq!(
        call(s, "/tickets/nope/restock").await.code(),
        (404, "not_found")
    );
}
