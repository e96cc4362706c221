//! A provider is not trusted, and its failures are reported.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::{Library, ids, library};
use crate::provider_fixture::{Behaviour, Words};

pub(super) async fn records_of_others_are_never_returned(l: Library) {
    for team in ["red", "blue"] {
        l.secrets(team, (0..5).map(|n| format!("{team}-{n}")), "word")
            .await;
    }
    l.wait_for_index("secrets", |found| found.len() == 10).await;
    let hunt = l.hunt("red", "/secrets/hunt?q=word").await;
    assert_eq!(ids(&hunt), ["red-0", "red-1", "red-2", "red-3", "red-4"]);
    let page = l.hunt("red", "/secrets/hunt-page?q=word&limit=2").await;
    // A cursor is valid for its caller only.
    let cursor = page["nextCursor"].as_str().unwrap();
    let stolen = l
        .send_as(
            "blue",
            "GET",
            &format!("/secrets/hunt-page?q=word&cursor={cursor}"),
            "",
        )
        .await;
    assert_eq!(stolen.code(), (400, "invalid_cursor"));
    assert_eq!(l.s.get("/secrets/hunt?q=word").await.status, 401);
}

/// A caller sees the same whether the provider returns other callers' records, unknown ids, or
/// nothing.
pub(super) async fn a_wrong_provider_reveals_no_hidden_records(l: Library) {
    l.secrets("blue", (0..40).map(|n| format!("blue-{n:02}")), "word")
        .await;
    l.wait_for_index("secrets", |found| found.len() == 40).await;
    let mut answers = Vec::new();
    let forty_ids = |prefix: &str| {
        (0..40)
            .map(|n| format!("{prefix}-{n:02}"))
            .collect::<Vec<_>>()
    };
    let invalid_ids: Vec<String> = [
        "",
        ".",
        "..",
        "\0",
        "a/b",
        &"x".repeat(300),
        "é",
        "'; DROP TABLE secrets; --",
    ]
    .map(str::to_owned)
    .into();
    for behaviour in [
        Behaviour::Honest,
        Behaviour::Returns(Vec::new()),
        Behaviour::Returns(forty_ids("blue")),
        Behaviour::ReturnsInTurn(forty_ids("blue")),
        Behaviour::Returns(forty_ids("nobody")),
        Behaviour::ReturnsInTurn(forty_ids("nobody")),
        Behaviour::Returns(invalid_ids.clone()),
        Behaviour::ReturnsInTurn(invalid_ids),
    ] {
        l.words.behave(behaviour);
        for path in [
            "/secrets/hunt?q=word",
            "/secrets/hunt-page?q=word&limit=1",
            "/secrets/hunt-page?q=word",
        ] {
            answers.push((path, l.hunt("red", path).await));
        }
    }
    for (path, answer) in &answers {
        let nothing = if path.contains("page") {
            json!({"items": [], "nextCursor": null, "hasMore": false})
        } else {
            json!([])
        };
        assert_eq!(*answer, nothing, "{path}");
    }
    assert_eq!(
        ids(&l.hunt("blue", "/secrets/hunt?q=word").await),
        Vec::<&str>::new(),
        "the provider also returns wrong ids to blue"
    );
    l.words.behave(Behaviour::Honest);
    assert_eq!(ids(&l.hunt("blue", "/secrets/hunt?q=word").await).len(), 40);
}

pub(super) async fn pages_are_filled_after_hits_are_dropped(l: Library) {
    l.secrets("blue", (0..300).map(|n| format!("blue-{n:03}")), "word")
        .await;
    l.secrets("red", (0..30).map(|n| format!("red-{n:03}")), "word")
        .await;
    // Nine hits of blue, then one of red, repeated 30 times.
    let mut order = Vec::new();
    for n in 0..30 {
        order.extend((0..9).map(|m| format!("blue-{:03}", n * 9 + m)));
        order.push(format!("red-{n:03}"));
    }
    l.words.behave(Behaviour::ReturnsInTurn(order));
    let expected: Vec<String> = (0..30).map(|n| format!("red-{n:03}")).collect();
    for limit in [1, 2, 3, 7, 29, 30, 31, 2000] {
        let mut seen: Vec<String> = Vec::new();
        let mut path = format!("/secrets/hunt-page?q=word&limit={limit}");
        loop {
            let page = l.hunt("red", &path).await;
            let items = ids(&page["items"]);
            seen.extend(items.iter().map(|id| (*id).to_owned()));
            assert_eq!(page["hasMore"], json!(page["nextCursor"].is_string()));
            let Some(cursor) = page["nextCursor"].as_str() else {
                break;
            };
            assert_eq!(items.len(), limit, "every page but the last is full");
            // A cursor contains only records that its reader has seen.
            let cursor_text = base64_text(cursor);
            assert!(!cursor_text.contains("blue"), "{cursor_text}");
            path = format!("/secrets/hunt-page?q=word&limit={limit}&cursor={cursor}");
        }
        assert_eq!(seen, expected, "{limit}");
    }
    // Each id counts once, even if it is repeated.
    l.words.behave(Behaviour::Returns(
        [
            "red-001", "red-000", "red-001", "red-001", "blue-000", "red-000",
        ]
        .map(str::to_owned)
        .to_vec(),
    ));
    assert_eq!(
        ids(&l.hunt("red", "/secrets/hunt?q=word").await),
        ["red-001", "red-000"]
    );
    let page = l.hunt("red", "/secrets/hunt-page?q=word&limit=2").await;
    assert_eq!(
        (ids(&page["items"]), &page["hasMore"]),
        (vec!["red-001", "red-000"], &json!(false))
    );
}

pub(super) fn base64_text(cursor: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(cursor)
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) async fn long_responses_of_a_provider_are_cut(l: Library) {
    l.words.behave(Behaviour::ReturnsTooMany);
    let before = l.words.queries.load(Ordering::SeqCst);
    let page = l.hunt("red", "/secrets/hunt-page?q=word&limit=5").await;
    assert_eq!(
        page,
        json!({"items": [], "nextCursor": null, "hasMore": false})
    );
    let query_count = l.words.queries.load(Ordering::SeqCst) - before;
    assert!((2..40).contains(&query_count), "{query_count}");
}

pub(super) async fn a_stale_index_returns_no_wrong_records(l: Library) {
    l.paper("a", "word one", "").await;
    l.paper("b", "word two", "").await;
    l.wait_for_index("papers", |found| found.len() == 2).await;
    // From here on, changes do not reach the index.
    *l.words.full.lock().unwrap() = true;
    assert_eq!(
        l.s.delete("/papers/a").await.status,
        204,
        "a failing index changes no response"
    );
    assert_eq!(
        l.s.patch("/papers/b", json!({"title": "changed"}))
            .await
            .status,
        200
    );
    let found = l.s.get("/papers/find?q=word").await.json();
    assert_eq!(
        (ids(&found), &found[0]["title"]),
        (vec!["b"], &json!("changed")),
        "the current records of the store"
    );
    // Missed changes arrive as soon as the provider works again.
    *l.words.full.lock().unwrap() = false;
    l.wait_for_entries("papers", &[("b", "changed|")]).await;
}

pub(super) async fn provider_failures_are_503(mut l: Library) {
    l.paper("a", "word", "").await;
    l.wait_for_index("papers", |found| found.len() == 1).await;
    for behaviour in [Behaviour::Fails, Behaviour::Panics] {
        l.words.behave(behaviour.clone());
        for path in ["/papers/find?q=word", "/papers/find-page?q=word"] {
            let reply = l.s.get(path).await;
            assert_eq!(
                (reply.code(), reply.header("retry-after").as_str()),
                ((503, "unavailable"), "1"),
                "{behaviour:?}"
            );
            assert!(
                !String::from_utf8_lossy(&reply.body).contains("order"),
                "no internals: {reply:?}"
            );
        }
        assert_eq!(
            ids(&l.s.get("/papers/find-here?q=word").await.json()),
            ["a"]
        );
        l.s.get("/papers/find").await.problem("required", "query:q");
    }
    // A provider that never answers is abandoned.
    l = library(
        l.on,
        Words {
            patience: Some(Duration::from_millis(30)),
            ..Words::default()
        },
    )
    .await;
    l.words.behave(Behaviour::Hangs);
    assert_eq!(
        l.s.get("/papers/find?q=word").await.code(),
        (503, "unavailable")
    );
    l.words.behave(Behaviour::Honest);
    assert_eq!(
        l.s.get("/papers/find?q=word").await.json(),
        json!([]),
        "the provider is called again the next time"
    );
}

pub(super) async fn hostile_search_texts_cause_no_error(l: Library) {
    l.paper("a", "word", "").await;
    l.wait_for_index("papers", |found| found.len() == 1).await;
    for q in [
        "title:*",
        "*:*",
        "a AND NOT b",
        "\"",
        "(((((",
        "word^9999",
        "/.*/",
        "..",
        "%27%20OR%201=1",
        "\\\\",
        "İ%F0%9F%98%80",
        "[a%20TO%20z]",
    ] {
        let q: String = q
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '%' {
                    c.to_string()
                } else {
                    percent(c)
                }
            })
            .collect();
        let reply = l.s.get(&format!("/papers/find?q={q}")).await;
        assert_eq!((reply.status, reply.json()), (200, json!([])), "{q}");
    }
}

pub(super) fn percent(c: char) -> String {
    percent_encoding::utf8_percent_encode(&c.to_string(), percent_encoding::NON_ALPHANUMERIC)
        .to_string()
}
