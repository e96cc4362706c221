//! The generated routes: create, get, update, delete.

use serde_json::json;

use crate::cases;
use crate::server::Server;

cases!(
    create_returns_the_record_with_generated_values,
    create_requires_required_fields,
    create_reports_all_problems_at_once,
    create_refuses_unknown_fields,
    create_refuses_fields_that_the_server_writes,
    a_taken_unique_value_is_a_conflict,
    a_taken_key_is_a_conflict,
    concurrent_creates_of_one_unique_value_succeed_once,
    null_clears_optional_fields_only,
    dates_with_an_offset_are_returned_in_utc,
    a_date_needs_a_time,
    an_integer_is_a_whole_number_in_range,
    invalid_json_is_malformed_json,
    a_body_needs_the_json_content_type,
    an_empty_body_lacks_the_required_fields,
    a_large_body_is_refused,
    get_returns_what_create_returned,
    update_changes_the_given_fields_only,
    an_empty_update_changes_nothing,
    update_clears_optional_fields_with_null,
    update_refuses_the_key_and_immutable_fields,
    update_to_a_taken_unique_value_is_a_conflict,
    update_of_a_missing_record_is_not_found,
    another_method_is_method_not_allowed,
    a_deleted_record_is_not_found,
    private_and_write_only_fields_are_never_returned,
    a_valid_request_id_is_kept,
    integer_keys_have_one_spelling,
    a_disabled_route_is_not_mounted,
    routes_are_closed_by_default,
    paths_are_plurals_in_kebab_case,
    a_namespace_is_a_prefix_of_the_table_only,
);

async fn create_returns_the_record_with_generated_values(s: &Server) {
    let reply = s
        .post("/posts", json!({"slug": "a", "title": "Alpha"}))
        .await;
    assert_eq!(reply.status, 201);
    let body = reply.json();
    let id = body["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), format!("/posts/{id}"));
    assert_eq!(id.len(), 36);
    assert_eq!(id.as_bytes()[14], b'7', "uuid version 7");
    assert_eq!(
        (&body["status"], &body["score"]),
        (&json!("draft"), &json!(0))
    );
    assert!(body.as_object().unwrap().contains_key("email"));
    assert!(body["email"].is_null());
    let created = body["createdAt"].as_str().unwrap();
    assert!(
        created.ends_with('Z') && created.len() == 24 && created.as_bytes()[19] == b'.',
        "{created}"
    );
}

async fn create_requires_required_fields(s: &Server) {
    s.post("/posts", json!({"slug": "a"}))
        .await
        .problem("required", "title");
}

async fn create_reports_all_problems_at_once(s: &Server) {
    let reply = s
        .post(
            "/posts",
            json!({"title": "", "status": "zzz", "email": "nope"}),
        )
        .await;
    assert_eq!(reply.code(), (400, "validation_failed"));
    let expected = [
        ("email", "format"),
        ("slug", "required"),
        ("status", "enum"),
        ("title", "min_length"),
    ];
    assert_eq!(
        reply.problems(),
        expected.map(|(p, c)| (p.to_owned(), c.to_owned()))
    );
}

async fn create_refuses_unknown_fields(s: &Server) {
    s.post("/posts", json!({"slug": "a", "title": "A", "bogus": 1}))
        .await
        .problem("unknown_field", "bogus");
    assert_eq!(s.get("/posts").await.json()["items"], json!([]));
}

async fn create_refuses_fields_that_the_server_writes(s: &Server) {
    let now = "2026-01-01T00:00:00Z";
    let reply = s
        .post(
            "/posts",
            json!({"slug": "a", "title": "A", "id": "x", "createdAt": now, "updatedAt": now}),
        )
        .await;
    assert_eq!(reply.code(), (400, "validation_failed"));
    let expected = ["createdAt", "id", "updatedAt"].map(|p| (p.to_owned(), "read_only".to_owned()));
    assert_eq!(reply.problems(), expected);
}

async fn a_taken_unique_value_is_a_conflict(s: &Server) {
    assert_eq!(
        s.post("/posts", json!({"slug": "a", "title": "A"}))
            .await
            .status,
        201
    );
    let reply = s.post("/posts", json!({"slug": "a", "title": "B"})).await;
    assert_eq!(reply.code(), (409, "conflict"));
    assert_eq!(reply.problems(), [("slug".to_owned(), "unique".to_owned())]);
}

async fn a_taken_key_is_a_conflict(s: &Server) {
    assert_eq!(
        s.post(
            "/documents",
            json!({"id": "d1", "kind": "k", "title": "one"})
        )
        .await
        .status,
        201
    );
    let reply = s
        .post(
            "/documents",
            json!({"id": "d1", "kind": "k", "title": "two"}),
        )
        .await;
    assert_eq!(reply.code(), (409, "conflict"));
    assert_eq!(reply.problems(), [("id".to_owned(), "unique".to_owned())]);
    assert_eq!(s.get("/documents/d1").await.json()["title"], "one");
}

async fn concurrent_creates_of_one_unique_value_succeed_once(s: &Server) {
    let replies = s
        .parallel(25, |i| {
            s.post("/posts", json!({"slug": "same", "title": format!("t{i}")}))
        })
        .await;
    assert_eq!(replies.iter().filter(|r| r.status == 201).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 24);
}

async fn null_clears_optional_fields_only(s: &Server) {
    s.post("/posts", json!({"slug": "a", "title": null}))
        .await
        .problem("null_not_allowed", "title");
    let reply = s
        .post("/posts", json!({"slug": "a", "title": "A", "email": null}))
        .await;
    assert_eq!(reply.status, 201);
    assert!(reply.json()["email"].is_null());
}

async fn dates_with_an_offset_are_returned_in_utc(s: &Server) {
    let reply = s
        .post(
            "/posts",
            json!({"slug": "a", "title": "A", "dueAt": "2026-01-02T03:04:05+02:00"}),
        )
        .await;
    assert_eq!(reply.json()["dueAt"], "2026-01-02T01:04:05.000Z");
}

async fn a_date_needs_a_time(s: &Server) {
    s.post(
        "/posts",
        json!({"slug": "a", "title": "A", "dueAt": "2026-01-02"}),
    )
    .await
    .problem("format", "dueAt");
}

async fn an_integer_is_a_whole_number_in_range(s: &Server) {
    for (score, code) in [
        (json!(1.5), "type"),
        (json!("1"), "type"),
        (json!(9_007_199_254_740_993_i64), "range"),
    ] {
        s.post("/posts", json!({"slug": "a", "title": "A", "score": score}))
            .await
            .problem(code, "score");
    }
}

async fn invalid_json_is_malformed_json(s: &Server) {
    let reply = s
        .raw(
            "POST",
            "/posts",
            &[("content-type", "application/json")],
            "{",
        )
        .await;
    assert_eq!(reply.code(), (400, "malformed_json"));
    assert_eq!(reply.json()["requestId"], reply.header("x-request-id"));
}

async fn a_body_needs_the_json_content_type(s: &Server) {
    let body = r#"{"slug":"a","title":"A"}"#;
    let reply = s
        .raw("POST", "/posts", &[("content-type", "text/plain")], body)
        .await;
    assert_eq!(reply.code(), (415, "unsupported_media_type"));
    assert_eq!(
        s.raw("POST", "/posts", &[], body).await.code(),
        (415, "unsupported_media_type")
    );
}

async fn an_empty_body_lacks_the_required_fields(s: &Server) {
    let reply = s
        .raw(
            "POST",
            "/posts",
            &[("content-type", "application/json")],
            "",
        )
        .await;
    assert_eq!(reply.code(), (400, "validation_failed"));
    assert_eq!(
        reply.problems(),
        ["slug", "title"].map(|p| (p.to_owned(), "required".to_owned()))
    );
}

async fn a_large_body_is_refused(s: &Server) {
    let reply = s
        .post("/posts", json!({"slug": "a", "title": "x".repeat(2 << 20)}))
        .await;
    assert_eq!(reply.code(), (413, "body_too_large"));
}

async fn get_returns_what_create_returned(s: &Server) {
    let created = s
        .post(
            "/posts",
            json!({"slug": "a", "title": "A", "tags": ["x"], "meta": {"b": 1, "a": [null]}}),
        )
        .await
        .json();
    let id = created["id"].as_str().unwrap();
    let got = s.get(&format!("/posts/{id}")).await;
    assert_eq!((got.status, got.json()), (200, created));
    assert_eq!(s.get("/posts/nope").await.code(), (404, "not_found"));
}

async fn update_changes_the_given_fields_only(s: &Server) {
    let created = s.create("a").await;
    s.advance(1000);
    let patched = s.patch(&s.path(&created), json!({"title": "New"})).await;
    assert_eq!(patched.status, 200);
    let patched = patched.json();
    assert_eq!(patched["title"], "New");
    assert_eq!(patched["createdAt"], created["createdAt"]);
    assert!(patched["updatedAt"].as_str() > created["updatedAt"].as_str());
    assert_eq!(patched["slug"], "a");
}

async fn an_empty_update_changes_nothing(s: &Server) {
    let created = s.create("a").await;
    s.advance(1000);
    let patched = s.patch(&s.path(&created), json!({})).await;
    assert_eq!((patched.status, patched.json()), (200, created));
}

async fn update_clears_optional_fields_with_null(s: &Server) {
    let created = s
        .post(
            "/posts",
            json!({"slug": "a", "title": "A", "email": "a@b.cc"}),
        )
        .await
        .json();
    let reply = s.patch(&s.path(&created), json!({"email": null})).await;
    assert_eq!(reply.status, 200);
    assert!(reply.json()["email"].is_null());
    s.patch(&s.path(&created), json!({"title": null}))
        .await
        .problem("null_not_allowed", "title");
}

async fn update_refuses_the_key_and_immutable_fields(s: &Server) {
    let created = s.create("a").await;
    s.patch(&s.path(&created), json!({"id": "x"}))
        .await
        .problem("read_only", "id");
    s.post(
        "/documents",
        json!({"id": "d1", "kind": "k", "title": "one"}),
    )
    .await;
    let reply = s
        .raw(
            "PATCH",
            "/documents/d1",
            &[("content-type", "application/json"), ("if-match", "\"1\"")],
            r#"{"kind":"z"}"#,
        )
        .await;
    reply.problem("immutable", "kind");
}

async fn update_to_a_taken_unique_value_is_a_conflict(s: &Server) {
    let (_a, b) = (s.create("a").await, s.create("b").await);
    assert_eq!(
        s.patch(&s.path(&b), json!({"slug": "a"})).await.code(),
        (409, "conflict")
    );
    assert_eq!(s.patch(&s.path(&b), json!({"slug": "b"})).await.status, 200);
}

async fn update_of_a_missing_record_is_not_found(s: &Server) {
    assert_eq!(
        s.patch("/posts/missing", json!({"title": "x"}))
            .await
            .code(),
        (404, "not_found")
    );
}

async fn another_method_is_method_not_allowed(s: &Server) {
    let created = s.create("a").await;
    let reply = s
        .raw(
            "PUT",
            &s.path(&created),
            &[("content-type", "application/json")],
            "{}",
        )
        .await;
    assert_eq!(reply.code(), (405, "method_not_allowed"));
    let mut allowed: Vec<_> = reply
        .header("allow")
        .split(',')
        .map(|m| m.trim().to_owned())
        .collect();
    allowed.sort();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"]);
}

async fn a_deleted_record_is_not_found(s: &Server) {
    let path = s.path(&s.create("a").await);
    let reply = s.delete(&path).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    assert_eq!(s.delete(&path).await.status, 404);
    assert_eq!(s.get(&path).await.status, 404);
}

async fn private_and_write_only_fields_are_never_returned(s: &Server) {
    s.post("/posts", json!({"slug": "a", "title": "A", "secret": "s"}))
        .await
        .problem("unknown_field", "secret");
    let created = s
        .post("/posts", json!({"slug": "a", "title": "A", "pin": "p"}))
        .await;
    assert_eq!(created.status, 201);
    let (created, listed) = (
        created.json(),
        s.get("/posts").await.json()["items"][0].clone(),
    );
    for record in [&created, &s.get(&s.path(&created)).await.json(), &listed] {
        let keys = record.as_object().unwrap();
        assert!(!keys.contains_key("secret") && !keys.contains_key("pin"));
    }
}

async fn a_valid_request_id_is_kept(s: &Server) {
    assert_eq!(s.get("/posts").await.header("x-request-id").len(), 36);
    let reply = s
        .raw("GET", "/posts/nope", &[("x-request-id", "abc-123.X_9")], "")
        .await;
    assert_eq!(reply.header("x-request-id"), "abc-123.X_9");
    assert_eq!(reply.json()["requestId"], "abc-123.X_9");
    for bad in ["short", "has space in it", &"x".repeat(129)] {
        assert_ne!(
            s.raw("GET", "/posts", &[("x-request-id", bad)], "")
                .await
                .header("x-request-id"),
            bad
        );
    }
}

async fn integer_keys_have_one_spelling(s: &Server) {
    let reply = s.post("/counters", json!({"id": "1"})).await;
    assert_eq!((reply.status, &reply.json()["id"]), (201, &json!("1")));
    assert_eq!(s.get("/counters/1").await.json()["id"], "1");
    for id in ["01", "x", "+1", "9223372036854775808", "1.0", "%31%00"] {
        assert_eq!(s.get(&format!("/counters/{id}")).await.status, 404, "{id}");
    }
}

async fn a_disabled_route_is_not_mounted(s: &Server) {
    s.post("/counters", json!({"id": "1"})).await;
    let reply = s.delete("/counters/1").await;
    assert_eq!(reply.code(), (405, "method_not_allowed"));
    assert!(!reply.header("allow").contains("DELETE"));
    assert_eq!(
        s.patch("/counters/1", json!({"total": 4})).await.status,
        200
    );
}

async fn routes_are_closed_by_default(s: &Server) {
    let reply = s.get("/secrets").await;
    assert_eq!(reply.code(), (401, "unauthorized"));
    assert_eq!(reply.header("www-authenticate"), "Bearer");
}

async fn paths_are_plurals_in_kebab_case(s: &Server) {
    for path in [
        "/categories",
        "/boxes",
        "/blog-posts",
        "/http-servers",
        "/quizzes",
        "/people",
    ] {
        assert_eq!(s.get(path).await.status, 200, "{path}");
    }
}

async fn a_namespace_is_a_prefix_of_the_table_only(s: &Server) {
    assert_eq!(
        s.get("/http-servers").await.status,
        200,
        "the namespace is not part of the path"
    );
    assert_eq!(s.get("/blog/http-servers").await.status, 404);
    assert!(s.running().adapters().table("blog_http_servers").is_some());
    #[cfg(feature = "sqlite")]
    if let Some(file) = s.file() {
        let database = rusqlite::Connection::open(file).unwrap();
        let count = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'blog_http_servers'";
        assert_eq!(
            database
                .query_row(count, [], |row| row.get::<_, i64>(0))
                .unwrap(),
            1
        );
    }
    #[cfg(feature = "postgres")]
    if s.url().starts_with("postgres") {
        let named = "SELECT table_name, table_type FROM information_schema.tables \
            WHERE table_schema = current_schema() AND table_name LIKE '%http_servers%'";
        let found = crate::server::postgres_server::rows(s.url(), named, |name, kind| (name, kind));
        assert_eq!(
            found,
            [("blog_http_servers".to_owned(), "BASE TABLE".to_owned())]
        );
    }
}
