//! The generated routes: create, get, update, delete.

use serde_json::json;

use crate::fixture::blog;

const JSON: (&str, &str) = ("content-type", "application/json");
const ED: (&str, &str) = ("x-user", "ed");

#[tokio::test]
async fn a_record_is_created_read_changed_and_removed() {
    let app = blog().await;
    let created = app
        .json(
            "POST",
            "/posts",
            json!({ "slug": "a", "title": "Alpha", "secret": null }),
        )
        .await;
    assert_eq!(
        created.summary(),
        "400 validation_failed secret=unknown_field"
    );
    let created = app
        .json(
            "POST",
            "/posts",
            json!({ "slug": "a", "title": "Alpha", "pin": "1234" }),
        )
        .await;
    assert_eq!(created.summary(), "201");
    assert_eq!(created.header("content-type"), "application/json");
    let record = created.json();
    let id = record["id"].as_str().unwrap();
    assert_eq!(created.header("location"), format!("/posts/{id}"));
    assert_eq!(
        (&record["status"], &record["category"]),
        (&json!("draft"), &json!(null))
    );
    assert!(record.get("pin").is_none() && record.get("secret").is_none());

    let uri = format!("/posts/{id}");
    assert_eq!(app.get(&uri).await.json(), record);
    let changed = app
        .json("PATCH", &uri, json!({ "title": "New", "category": "c" }))
        .await;
    assert_eq!(
        (changed.summary().as_str(), &changed.json()["title"]),
        ("200", &json!("New"))
    );
    assert_eq!(
        app.json("PATCH", &uri, json!({})).await.json(),
        changed.json()
    );
    assert_eq!(
        app.json("PATCH", &uri, json!({ "title": null }))
            .await
            .summary(),
        "400 validation_failed title=null_not_allowed"
    );
    assert_eq!(
        app.json("PATCH", &uri, json!({ "id": "x" }))
            .await
            .summary(),
        "400 validation_failed id=read_only"
    );

    let removed = app.send("DELETE", &uri, &[], "").await;
    assert_eq!((removed.summary().as_str(), removed.body.len()), ("204", 0));
    assert_eq!(
        app.send("DELETE", &uri, &[], "").await.summary(),
        "404 not_found"
    );
    assert_eq!(app.get(&uri).await.summary(), "404 not_found");
}

#[tokio::test]
async fn every_problem_of_a_body_is_reported_at_once() {
    let app = blog().await;
    let answer =
        app.json("POST", "/posts", json!({ "title": "", "status": "zzz", "createdAt": "2026-01-01T00:00:00Z", "b": 1, "a": 1 })).await;
    assert_eq!(
        answer.summary(),
        "400 validation_failed a=unknown_field b=unknown_field createdAt=read_only slug=required status=enum title=min_length"
    );
    assert_eq!(answer.json()["requestId"], answer.header("x-request-id"));
    assert_eq!(crate::fixture::slugs(&app.get("/posts").await).len(), 0);
}

#[tokio::test]
async fn conflicts_name_the_field_and_not_the_value() {
    let app = blog().await;
    app.post("a", json!({})).await;
    let answer = app
        .json("POST", "/posts", json!({ "slug": "a", "title": "t" }))
        .await;
    assert_eq!(answer.summary(), "409 conflict slug=unique");
}

#[tokio::test]
async fn bodies_are_json_objects_of_a_bounded_size() {
    let app = blog().await;
    let post =
        |headers: &'static [(&str, &str)], body: String| app.send("POST", "/posts", headers, body);
    let good = json!({ "slug": "a", "title": "A" }).to_string();
    for (headers, body, expected) in [
        (&[JSON][..], "{", "400 malformed_json"),
        (
            &[JSON],
            "",
            "400 validation_failed slug=required title=required",
        ),
        (
            &[],
            "",
            "400 validation_failed slug=required title=required",
        ),
        (&[JSON], "[]", "400 validation_failed =type"),
        (&[JSON], "{\"slug\":1,\"slug\":2}", "400 malformed_json"),
        (&[JSON], "{\"slug\":\"\\ud800\"}", "400 malformed_json"),
        (&[], &good, "415 unsupported_media_type"),
        (
            &[("content-type", "text/plain")],
            &good,
            "415 unsupported_media_type",
        ),
        (
            &[("content-type", "application/json; charset=latin1")],
            &good,
            "415 unsupported_media_type",
        ),
        (
            &[("content-type", "application/json; charset=UTF-8")],
            &good,
            "201",
        ),
    ] {
        assert_eq!(
            post(headers, body.to_owned()).await.summary(),
            expected,
            "{headers:?} {body}"
        );
    }
    assert_eq!(
        post(&[JSON], format!("{{\"slug\":\"{}\"}}", "x".repeat(1 << 20)))
            .await
            .summary(),
        "413 body_too_large"
    );
    // The declared length is too large, so the body is refused before a byte is read.
    let never = axum::body::Body::from_stream(futures_util::stream::pending::<
        Result<bytes::Bytes, std::io::Error>,
    >());
    let body = SizedBody {
        inner: never,
        length: 2 << 20,
    };
    let answer = app
        .send("POST", "/posts", &[JSON], axum::body::Body::new(body))
        .await;
    assert_eq!(answer.summary(), "413 body_too_large");
}

/// A body with a declared length.
struct SizedBody {
    inner: axum::body::Body,
    length: u64,
}

impl axum::body::HttpBody for SizedBody {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, axum::Error>>> {
        std::pin::Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.length)
    }
}

#[tokio::test]
async fn routes_without_input_take_no_body() {
    let app = blog().await;
    let id = app.post("a", json!({})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let uri = format!("/posts/{id}");
    assert_eq!(app.json("GET", &uri, json!({})).await.summary(), "200");
    assert_eq!(
        app.json("GET", &uri, json!({ "x": 1 })).await.summary(),
        "400 validation_failed x=unknown_field"
    );
    assert_eq!(
        app.send("GET", &uri, &[], "{}").await.summary(),
        "415 unsupported_media_type"
    );
    assert_eq!(
        app.json("DELETE", &uri, json!({ "x": 1 })).await.summary(),
        "400 validation_failed x=unknown_field"
    );
    assert_eq!(app.json("DELETE", &uri, json!({})).await.summary(), "204");
}

#[tokio::test]
async fn crud_routes_except_list_take_no_query() {
    let app = blog().await;
    let id = app.post("a", json!({})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let uri = format!("/posts/{id}");
    for (method, uri) in [
        ("GET", uri.as_str()),
        ("PATCH", &uri),
        ("DELETE", &uri),
        ("POST", "/posts"),
    ] {
        let answer = app
            .json(method, &format!("{uri}?b=1&a=2&b=3"), json!({}))
            .await;
        assert_eq!(
            answer.summary(),
            "400 unknown_parameter query:a=unknown_parameter query:b=unknown_parameter",
            "{method}"
        );
    }
    assert_eq!(app.get(&format!("{uri}?")).await.summary(), "200");
}

#[tokio::test]
async fn ids_in_paths_are_decoded_once() {
    let app = blog().await;
    let create = |id: &str| json!({ "id": id, "text": "t" }).to_string();
    for (id, segment) in [
        ("a/b", "a%2Fb"),
        ("50%25", "50%2525"),
        ("ä {x}", "%C3%A4%20%7Bx%7D"),
        ("q?#", "q%3F%23"),
    ] {
        let answer = app.send("POST", "/notes", &[JSON, ED], create(id)).await;
        assert_eq!(
            answer.header("location"),
            format!("/notes/{segment}"),
            "{}",
            answer.summary()
        );
        assert_eq!(app.get(&format!("/notes/{segment}")).await.json()["id"], id);
    }
    for missing in ["%ff", ".", "%00", "a%2fc", &"x".repeat(256), "a/b"] {
        assert_eq!(
            app.get(&format!("/notes/{missing}")).await.summary(),
            "404 not_found",
            "{missing}"
        );
    }
}

#[tokio::test]
async fn writes_check_versions() {
    let app = blog().await;
    let created = app
        .send(
            "POST",
            "/notes",
            &[JSON, ED],
            json!({ "id": "a", "text": "1" }).to_string(),
        )
        .await;
    assert_eq!(created.header("etag"), "\"1\"");
    let patch = |tag: &'static str, text: &str| {
        let body = json!({ "text": text }).to_string();
        app.send(
            "PATCH",
            "/notes/a",
            if tag.is_empty() {
                &[JSON, ED]
            } else {
                Box::leak(Box::new([JSON, ED, ("if-match", tag)]))
            },
            body,
        )
    };
    assert_eq!(patch("", "2").await.summary(), "428 precondition_required");
    for bad in ["*", "W/\"1\"", "\"1\",\"2\"", "1", "\"01\""] {
        assert_eq!(
            patch(bad, "2").await.summary(),
            "400 validation_failed header:If-Match=format",
            "{bad}"
        );
    }
    let changed = patch("\"1\"", "2").await;
    assert_eq!(
        (changed.summary().as_str(), changed.header("etag")),
        ("200", "\"2\"")
    );
    assert_eq!(
        patch("\"1\"", "3").await.summary(),
        "412 precondition_failed"
    );

    let get = |tag: &'static str| {
        app.send(
            "GET",
            "/notes/a",
            Box::leak(Box::new([("if-none-match", tag)])),
            "",
        )
    };
    let unchanged = get("\"1\", W/\"2\"").await;
    assert_eq!(
        (
            unchanged.summary().as_str(),
            unchanged.header("etag"),
            unchanged.body.len()
        ),
        ("304", "\"2\"", 0)
    );
    assert_eq!(get("\"1\"").await.json()["text"], "2");

    let delete = |headers: &'static [(&str, &str)]| app.send("DELETE", "/notes/a", headers, "");
    assert_eq!(
        delete(&[ED, ("x-roles", "admin")]).await.summary(),
        "428 precondition_required"
    );
    assert_eq!(
        delete(&[ED, ("x-roles", "admin"), ("if-match", "\"1\"")])
            .await
            .summary(),
        "412 precondition_failed"
    );
    assert_eq!(
        delete(&[ED, ("x-roles", "admin"), ("if-match", "\"2\"")])
            .await
            .summary(),
        "204"
    );
}

#[tokio::test]
async fn a_precondition_on_records_without_versions_is_refused() {
    let app = blog().await;
    let id = app.post("a", json!({})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = app
        .send(
            "DELETE",
            &format!("/posts/{id}"),
            &[("if-match", "\"1\"")],
            "",
        )
        .await;
    assert_eq!(
        answer.summary(),
        "400 validation_failed header:If-Match=not_allowed"
    );
    assert_eq!(app.get(&format!("/posts/{id}")).await.summary(), "200");
}

#[tokio::test]
async fn an_id_that_equals_a_static_segment_is_refused() {
    let app = crate::fixture::blog_with(|endpoints, _| {
        let mut stats = endpoints
            .iter()
            .find(|e| e.path == "/notes" && e.name == "list")
            .unwrap()
            .clone();
        stats.path = "/notes/by%20text".to_owned();
        endpoints.push(stats);
    })
    .await;
    let create = |id: &str| {
        app.send(
            "POST",
            "/notes",
            &[JSON, ED],
            json!({ "id": id, "text": "t" }).to_string(),
        )
    };
    assert_eq!(
        create("by text").await.summary(),
        "400 validation_failed id=reserved"
    );
    assert_eq!(create("by-text").await.summary(), "201");
}
