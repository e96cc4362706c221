//! A provider is not trusted, and its failures are reported.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::{Library, ids, library};
use crate::provider_fixture::{Mood, Words};

pub(super) async fn others_records_are_never_shown(l: Library) {
    for team in ["red", "blue"] {
        l.secrets(team, (0..5).map(|n| format!("{team}-{n}")), "word")
            .await;
    }
    l.settled("secrets", |found| found.len() == 10).await;
    let hunt = l.hunt("red", "/secrets/hunt?q=word").await;
    assert_eq!(ids(&hunt), ["red-0", "red-1", "red-2", "red-3", "red-4"]);
    let page = l.hunt("red", "/secrets/hunt-page?q=word&limit=2").await;
    // A cursor is its caller's.
    let cursor = page["nextCursor"].as_str().unwrap();
    let stolen = l
        .as_of(
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
pub(super) async fn a_liar_is_told_apart_by_nothing(l: Library) {
    l.secrets("blue", (0..40).map(|n| format!("blue-{n:02}")), "word")
        .await;
    l.settled("secrets", |found| found.len() == 40).await;
    let mut answers = Vec::new();
    let some = |prefix: &str| {
        (0..40)
            .map(|n| format!("{prefix}-{n:02}"))
            .collect::<Vec<_>>()
    };
    let odd: Vec<String> = [
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
    for mood in [
        Mood::Honest,
        Mood::Says(Vec::new()),
        Mood::Says(some("blue")),
        Mood::Lists(some("blue")),
        Mood::Says(some("nobody")),
        Mood::Lists(some("nobody")),
        Mood::Says(odd.clone()),
        Mood::Lists(odd),
    ] {
        l.words.mood(mood);
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
        "it lies to blue as well"
    );
    l.words.mood(Mood::Honest);
    assert_eq!(ids(&l.hunt("blue", "/secrets/hunt?q=word").await).len(), 40);
}

pub(super) async fn pages_stay_whole_when_hits_are_dropped(l: Library) {
    l.secrets("blue", (0..300).map(|n| format!("blue-{n:03}")), "word")
        .await;
    l.secrets("red", (0..30).map(|n| format!("red-{n:03}")), "word")
        .await;
    // Nine of blue's and then one of red's, again and again, some of them twice.
    let mut order = Vec::new();
    for n in 0..30 {
        order.extend((0..9).map(|m| format!("blue-{:03}", n * 9 + m)));
        order.push(format!("red-{n:03}"));
    }
    l.words.mood(Mood::Lists(order));
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
            assert_eq!(items.len(), limit, "a page that is not the last is full");
            // A cursor contains only records that its reader has seen.
            let shown = base64_text(cursor);
            assert!(!shown.contains("blue"), "{shown}");
            path = format!("/secrets/hunt-page?q=word&limit={limit}&cursor={cursor}");
        }
        assert_eq!(seen, expected, "{limit}");
    }
    // Each id counts once, however often it is named.
    l.words.mood(Mood::Says(
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

pub(super) async fn what_a_provider_babbles_is_bounded(l: Library) {
    l.words.mood(Mood::Babbles);
    let before = l.words.queries.load(Ordering::SeqCst);
    let page = l.hunt("red", "/secrets/hunt-page?q=word&limit=5").await;
    assert_eq!(
        page,
        json!({"items": [], "nextCursor": null, "hasMore": false})
    );
    let asked = l.words.queries.load(Ordering::SeqCst) - before;
    assert!((2..40).contains(&asked), "{asked}");
}

pub(super) async fn an_index_behind_the_store_shows_nothing_wrong(l: Library) {
    l.paper("a", "word one", "").await;
    l.paper("b", "word two", "").await;
    l.settled("papers", |found| found.len() == 2).await;
    // From here on the index hears nothing.
    *l.words.full.lock().unwrap() = true;
    assert_eq!(
        l.s.delete("/papers/a").await.status,
        204,
        "a failing index changes no answer"
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
        "what the store has now"
    );
    // Missed changes arrive as soon as the provider works again.
    *l.words.full.lock().unwrap() = false;
    l.until("papers", &[("b", "changed|")]).await;
}

pub(super) async fn failures_are_503(mut l: Library) {
    l.paper("a", "word", "").await;
    l.settled("papers", |found| found.len() == 1).await;
    for mood in [Mood::Fails, Mood::Panics] {
        l.words.mood(mood.clone());
        for path in ["/papers/find?q=word", "/papers/find-page?q=word"] {
            let reply = l.s.get(path).await;
            assert_eq!(
                (reply.code(), reply.header("retry-after").as_str()),
                ((503, "unavailable"), "1"),
                "{mood:?}"
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
    // One that never answers is given up.
    l = library(
        l.on,
        Words {
            patience: Some(Duration::from_millis(30)),
            ..Words::default()
        },
    )
    .await;
    l.words.mood(Mood::Hangs);
    assert_eq!(
        l.s.get("/papers/find?q=word").await.code(),
        (503, "unavailable")
    );
    l.words.mood(Mood::Honest);
    assert_eq!(
        l.s.get("/papers/find?q=word").await.json(),
        json!([]),
        "and asked again the next time"
    );
}

pub(super) async fn hostile_texts(l: Library) {
    l.paper("a", "word", "").await;
    l.settled("papers", |found| found.len() == 1).await;
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
