//! Operations: both forms of a lookup, exists and HEAD, transitions and their bodies.

use serde_json::{Value, json};

use crate::fixture::{blog, slugs};

#[tokio::test]
async fn a_lookup_of_one_record_has_two_forms() {
    let app = blog().await;
    let record = app.post("a/b", json!({})).await;
    assert_eq!(app.get("/posts/by-slug?slug=a/b").await.json(), record);
    assert_eq!(app.get("/posts/by-slug/a%2Fb").await.json(), record);
    for path in ["/posts/by-slug?slug=z", "/posts/by-slug/z"] {
        let answer = app.get(path).await;
        assert_eq!(
            (answer.summary().as_str(), answer.json()),
            ("200", Value::Null)
        );
    }
    // The omitted parameter drops its condition.
    assert_eq!(app.get("/posts/by-slug").await.json(), record);
    assert_eq!(
        app.get("/posts/by-slug/%ff").await.summary(),
        "400 validation_failed path:slug=format"
    );
    assert_eq!(
        app.get("/posts/by-slug/a?slug=a").await.summary(),
        "400 unknown_parameter query:slug=unknown_parameter"
    );
    assert_eq!(
        app.get("/posts/by-slug?limit=1").await.summary(),
        "400 unknown_parameter query:limit=unknown_parameter"
    );
    assert_eq!(
        app.get("/posts/by-slug?slug=a&slug=b").await.summary(),
        "400 validation_failed query:slug=duplicate"
    );
    assert_eq!(
        app.get("/posts/by-slug?slug[null]=true").await.summary(),
        "400 validation_failed query:slug[null]=null_not_allowed"
    );
    let post = app.json("POST", "/posts/by-slug", json!({})).await;
    assert_eq!(
        (post.summary().as_str(), post.header("allow")),
        ("405 method_not_allowed", "GET, HEAD, OPTIONS")
    );
}

#[tokio::test]
async fn lookup_many_returns_pages() {
    let app = blog().await;
    for (slug, category, score) in [
        ("a", json!("x"), 1),
        ("b", json!("x"), 2),
        ("c", json!("x"), 1),
        ("d", Value::Null, 1),
    ] {
        app.post(slug, json!({ "category": category, "score": score }))
            .await;
    }
    let first = app.get("/posts/by-category?category=x").await;
    assert_eq!(slugs(&first), ["a", "b"]);
    let cursor = first.json()["nextCursor"].as_str().unwrap().to_owned();
    assert_eq!(
        slugs(
            &app.get(&format!(
                "/posts/by-category?category=x&limit=1&cursor={cursor}"
            ))
            .await
        ),
        ["c"]
    );
    assert_eq!(
        app.get(&format!("/posts?category=x&cursor={cursor}"))
            .await
            .summary(),
        "400 invalid_cursor"
    );
    assert_eq!(slugs(&app.get("/posts/by-category/x/1").await), ["a", "c"]);
    assert_eq!(
        slugs(&app.get("/posts/by-category?category[null]=true").await),
        ["d"]
    );
    assert_eq!(slugs(&app.get("/posts/by-category?score=2").await), ["b"]);
    for (query, expected) in [
        (
            "/posts/by-category?category[null]=true&category=x",
            "query:category[null]=duplicate",
        ),
        (
            "/posts/by-category?category[null]=false",
            "query:category[null]=enum",
        ),
        (
            "/posts/by-category?limit=0&score=x",
            "query:limit=range query:score=type",
        ),
        (
            "/posts/by-category/x/y?limit=x",
            "path:score=type query:limit=type",
        ),
    ] {
        assert_eq!(
            app.get(query).await.summary(),
            format!("400 validation_failed {expected}"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn exists_answers_in_every_form() {
    let app = blog().await;
    app.post("a", json!({})).await;
    assert_eq!(
        app.get("/posts/slug-taken?slug=a").await.json(),
        json!({ "exists": true })
    );
    assert_eq!(
        app.get("/posts/slug-taken/z").await.json(),
        json!({ "exists": false })
    );
    for (path, status) in [
        ("/posts/slug-taken/a", 200),
        ("/posts/slug-taken/z", 404),
        ("/posts/slug-taken?slug=z", 404),
    ] {
        let answer = app.send("HEAD", path, &[], "").await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (status, 0),
            "{path}"
        );
    }
    assert_eq!(
        app.get("/posts/slug-taken").await.summary(),
        "400 validation_failed query:slug=required"
    );
}

#[tokio::test]
async fn transitions_take_a_body_and_return_the_record_or_true() {
    let app = blog().await;
    let record = app.post("a", json!({ "category": "x" })).await;
    let uri = format!("/posts/{}/publish", record["id"].as_str().unwrap());
    for (body, expected) in [
        (
            json!({ "x": 1, "category": 2 }),
            "category=type x=unknown_field",
        ),
        (json!({ "id": "x" }), "id=unknown_field"),
        (json!([]), "=type"),
    ] {
        assert_eq!(
            app.json("POST", &uri, body).await.summary(),
            format!("400 validation_failed {expected}")
        );
    }
    assert_eq!(
        app.send("POST", &uri, &[], "{}").await.summary(),
        "415 unsupported_media_type"
    );
    let published = app.json("POST", &uri, json!({ "category": null })).await;
    assert_eq!(
        (published.summary().as_str(), &published.json()["status"]),
        ("200", &json!("published"))
    );
    assert_eq!(published.json()["category"], Value::Null);
    assert_eq!(
        app.send("POST", &uri, &[], "").await.summary(),
        "400 invalid_transition status=current status=expected"
    );
    assert_eq!(
        app.json("POST", "/posts/none/publish", json!({}))
            .await
            .summary(),
        "404 not_found"
    );
    assert_eq!(
        app.json("POST", "/posts/%00/publish", json!({}))
            .await
            .summary(),
        "404 not_found"
    );

    let retired = app
        .send("POST", &uri.replace("publish", "retire"), &[], "")
        .await;
    assert_eq!(
        (retired.summary().as_str(), retired.json()),
        ("200", json!(true))
    );
    let body = json!({ "category": "y" });
    let retire = uri.replace("publish", "retire");
    assert_eq!(
        app.json("POST", &retire, body).await.summary(),
        "400 validation_failed category=unknown_field"
    );
}
