//! The list route: pages, sorts, filters, and refused parameters.

use serde_json::{Value, json};

use crate::fixture::{App, blog, slugs};

async fn blog_with_posts() -> App {
    let app = blog().await;
    for (slug, more) in [
        (
            "a",
            json!({ "title": "Alpha", "score": 1, "category": "x", "live": true, "dueAt": "2026-01-01T00:00:00Z", "tags": ["red"] }),
        ),
        (
            "b",
            json!({ "title": "Beta", "score": 2, "status": "published", "dueAt": "2026-01-02T00:00:00Z" }),
        ),
        (
            "c,1",
            json!({ "title": "Gamma", "score": -3, "category": "y", "tags": ["red", "blue"] }),
        ),
    ] {
        app.post(slug, more).await;
    }
    app
}

#[tokio::test]
async fn pages_continue_to_the_end() {
    let app = blog_with_posts().await;
    let first = app.get("/posts").await;
    assert_eq!(slugs(&first), ["a", "b"]);
    let page = first.json();
    let keys: Vec<&String> = page.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert_eq!(page["hasMore"], true);
    let next = app
        .get(&format!(
            "/posts?cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await;
    assert_eq!(slugs(&next), ["c,1"]);
    assert_eq!(
        (&next.json()["nextCursor"], &next.json()["hasMore"]),
        (&Value::Null, &json!(false))
    );
    assert_eq!(slugs(&app.get("/posts?limit=99").await), ["a", "b", "c,1"]);
    assert_eq!(
        app.get("/posts?cursor=@@@@").await.summary(),
        "400 invalid_cursor"
    );
    assert_eq!(
        app.get("/posts?cursor=").await.summary(),
        "400 invalid_cursor"
    );
}

#[tokio::test]
async fn a_cursor_is_valid_for_the_same_conditions_in_any_order() {
    let app = blog_with_posts().await;
    let page = app
        .get("/posts?limit=1&score[gt]=-9&title[ne]=x")
        .await
        .json();
    let cursor = page["nextCursor"].as_str().unwrap();
    assert_eq!(
        slugs(
            &app.get(&format!(
                "/posts?title[ne]=x&score[gt]=-9&cursor={cursor}&limit=2"
            ))
            .await
        ),
        ["b", "c,1"]
    );
    assert_eq!(
        app.get(&format!("/posts?title[ne]=x&cursor={cursor}"))
            .await
            .summary(),
        "400 invalid_cursor"
    );
    assert_eq!(
        app.get(&format!(
            "/posts?title[ne]=x&score[gt]=-9&sortDir=desc&cursor={cursor}"
        ))
        .await
        .summary(),
        "400 invalid_cursor"
    );
}

#[tokio::test]
async fn lists_apply_sorts() {
    let app = blog_with_posts().await;
    for (query, expected) in [
        ("sort=score", ["c,1", "a", "b"]),
        ("sort=score&sortDir=desc", ["b", "a", "c,1"]),
        ("sortDir=desc", ["c,1", "b", "a"]),
        ("sort=title&sortDir=asc", ["a", "b", "c,1"]),
    ] {
        assert_eq!(
            slugs(&app.get(&format!("/posts?limit=3&{query}")).await),
            expected,
            "{query}"
        );
    }
    for (query, path) in [
        ("sort=meta", "sort"),
        ("sort=secret", "sort"),
        ("sort=nope", "sort"),
        ("sortDir=up", "sortDir"),
    ] {
        assert_eq!(
            app.get(&format!("/posts?{query}")).await.summary(),
            format!("400 validation_failed query:{path}=enum")
        );
    }
}

#[tokio::test]
async fn lists_apply_filters() {
    let app = blog_with_posts().await;
    for (query, expected) in [
        ("slug=a", &["a"][..]),
        ("status=published", &["b"]),
        ("live=true", &["a"]),
        ("score=-3", &["c,1"]),
        ("dueAt=2026-01-01T01:00:00%2B01:00", &["a"]),
        ("category[ne]=x", &["b", "c,1"]),
        ("category[null]=true", &["b"]),
        ("category[null]=false", &["a", "c,1"]),
        ("score[gte]=1&score[lt]=2", &["a"]),
        ("dueAt[gt]=2026-01-01T00:00:00Z", &["b"]),
        ("slug[in]=a,b", &["a", "b"]),
        ("slug[in]=a&slug[in]=b", &["a", "b"]),
        ("slug[in]=c\\,1,zzz", &["c,1"]),
        ("slug[in]=c%2C1", &["c,1"]),
        ("slug%5Bin%5D=a,c%2c1", &["a", "c,1"]),
        ("slug[in]=c%2C1&slug[in]=b", &["b", "c,1"]),
        ("slug[in]=a%2Cb", &[]),
        ("slug[nin]=c%2C1,b", &["a"]),
        ("slug[nin]=a", &["b", "c,1"]),
        ("category[nin]=x", &["b", "c,1"]),
        ("score[in]=1,-3", &["a", "c,1"]),
        ("score[nin]=1,-3", &["b"]),
        ("status[in]=published", &["b"]),
        (
            "dueAt[in]=2026-01-01T00:00:00Z,2026-01-02T00:00:00.000Z",
            &["a", "b"],
        ),
        ("title[contains]=ALP", &["a"]),
        ("tags[has]=red", &["a", "c,1"]),
        ("title[contains]=a&title[contains]=b", &[]),
    ] {
        let answer = app.get(&format!("/posts?limit=3&{query}")).await;
        if query.starts_with("title[contains]=a&") {
            assert_eq!(
                answer.summary(),
                "400 validation_failed query:title[contains]=duplicate"
            );
            continue;
        }
        assert_eq!(slugs(&answer), expected, "{query}");
    }
}

#[tokio::test]
async fn all_unknown_parameters_are_reported_before_values() {
    let app = blog_with_posts().await;
    for (query, expected) in [
        (
            "nope=1&limit=0&secret=s&pin=p&nope=2",
            "query:nope=unknown_parameter query:pin=unknown_parameter query:secret=unknown_parameter",
        ),
        ("slug[eq]=a", "query:slug[eq]=unknown_parameter"),
        ("slug[in=a", "query:slug[in=unknown_parameter"),
        ("slug[]=a", "query:slug[]=unknown_parameter"),
        ("limit[gt]=1", "query:limit[gt]=unknown_parameter"),
        ("SLUG=a", "query:SLUG=unknown_parameter"),
        ("meta=1", "query:meta=unknown_parameter"),
        ("=1", "query:=unknown_parameter"),
        (
            "due_at=2026-01-01T00:00:00Z",
            "query:due_at=unknown_parameter",
        ),
        ("actor.id=me", "query:actor.id=unknown_parameter"),
    ] {
        assert_eq!(
            app.get(&format!("/posts?{query}")).await.summary(),
            format!("400 unknown_parameter {expected}")
        );
    }
}

#[tokio::test]
async fn all_invalid_values_are_reported_together() {
    let app = blog_with_posts().await;
    for (query, expected) in [
        ("limit=0", "query:limit=range"),
        ("limit=-1", "query:limit=range"),
        ("limit=abc", "query:limit=type"),
        ("limit=1&limit=2", "query:limit=duplicate"),
        ("status=zzz&live=yes", "query:live=type query:status=enum"),
        ("slug=a&slug=b", "query:slug=duplicate"),
        ("score=1.5", "query:score=type"),
        ("score=", "query:score=type"),
        ("score[in]=1,x", "query:score[in]=type"),
        ("slug=%ff", "query:slug=format"),
        ("slug=%4", "query:slug=format"),
        ("slug[in]=a\\b", "query:slug[in]=format"),
        ("dueAt=2026-01-02", "query:dueAt=format"),
        ("dueAt=2026-01-01T01:00:00+01:00", "query:dueAt=format"),
        ("title[contains]=", "query:title[contains]=empty"),
        ("live[gt]=true", "query:live[gt]=not_allowed"),
        ("live[in]=true", "query:live[in]=not_allowed"),
        ("status[lt]=draft", "query:status[lt]=not_allowed"),
        ("score[contains]=1", "query:score[contains]=not_allowed"),
        ("slug[has]=a", "query:slug[has]=not_allowed"),
        ("slug[null]=true", "query:slug[null]=not_allowed"),
        ("tags=red", "query:tags=not_allowed"),
        ("category[null]=1", "query:category[null]=type"),
    ] {
        assert_eq!(
            app.get(&format!("/posts?{query}")).await.summary(),
            format!("400 validation_failed {expected}"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn conditions_and_values_are_limited() {
    let app = blog_with_posts().await;
    let values = |count: usize| format!("/posts?slug[in]={}", vec!["v"; count].join(","));
    assert_eq!(app.get(&values(100)).await.summary(), "200");
    assert_eq!(
        app.get(&values(101)).await.summary(),
        "400 validation_failed query:slug[in]=too_many"
    );
    let appended = format!("{}&slug[in]=w", values(100));
    assert_eq!(
        app.get(&appended).await.summary(),
        "400 validation_failed query:slug[in]=too_many"
    );
    let operators = ["", "[ne]", "[gt]", "[gte]", "[lt]", "[lte]", "[contains]"];
    let all = ["slug", "title", "category"].map(|f| operators.map(|o| format!("{f}{o}=v")));
    let all: Vec<String> = all.into_iter().flatten().collect();
    assert_eq!(
        app.get(&format!("/posts?{}", all[..20].join("&")))
            .await
            .summary(),
        "200"
    );
    assert_eq!(
        app.get(&format!("/posts?{}", all.join("&")))
            .await
            .summary(),
        "400 validation_failed query:category[contains]=too_many"
    );
}
