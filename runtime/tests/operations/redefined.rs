//! Operations with another method or path. For methods other than GET, parameters, `limit` and
//! `cursor` are members of the body.

use serde_json::json;

use crate::cases;
use crate::fixture::{call, slugs, ticket};
use crate::server::Server;

cases!(
    a_lookup_may_be_a_post,
    redefined_operations_have_no_default_routes,
    page_parameters_may_be_in_the_body,
    parameters_come_from_path_and_body,
    parameters_outside_of_the_path_are_in_the_query,
    a_list_parameter_may_be_in_the_query,
    exists_may_be_a_post,
    a_transition_may_be_a_put,
    strict_parameters_are_required,
    openapi_lists_redefined_routes,
);

async fn a_lookup_may_be_a_post(s: &Server) {
    let path = ticket(s, "a", json!({})).await;
    let record = s.get(&path).await.json();
    assert_eq!(
        s.post("/tickets/find", json!({ "slug": "a" })).await.json(),
        record
    );
    let none = s.post("/tickets/find", json!({ "slug": "z" })).await;
    assert_eq!((none.status, &none.body[..]), (200, &b"null"[..]));
    // An omitted parameter drops its condition, as in a query; an empty body omits them all.
    assert_eq!(s.post("/tickets/find", json!({})).await.json(), record);
    assert_eq!(call(s, "/tickets/find").await.json(), record);

    s.post("/tickets/find", json!({ "slug": 1 }))
        .await
        .problem("type", "slug");
    s.post("/tickets/find", json!({ "slug": null }))
        .await
        .problem("null_not_allowed", "slug");
    s.post("/tickets/find", json!({ "slug": "a", "x": 1 }))
        .await
        .problem("unknown_field", "x");
    s.post("/tickets/find", json!({ "limit": 1 }))
        .await
        .problem("unknown_field", "limit");
    assert_eq!(s.post("/tickets/find", json!([])).await.status, 400);
    assert_eq!(
        s.post("/tickets/find?slug=a", json!({})).await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(
        s.raw("POST", "/tickets/find", &[], "{}").await.code(),
        (415, "unsupported_media_type")
    );
}

async fn redefined_operations_have_no_default_routes(s: &Server) {
    ticket(s, "a", json!({})).await;
    // The static path belongs to the operation for every method. There is no route with the
    // parameters in the path.
    let reply = s.get("/tickets/find").await;
    assert_eq!(
        (reply.code(), reply.header("allow")),
        ((405, "method_not_allowed"), "POST, OPTIONS".to_owned())
    );
    assert_eq!(s.get("/tickets/find/a").await.code(), (404, "not_found"));
    assert_eq!(s.post("/tickets/reopen", json!({})).await.status, 405);
    assert_eq!(
        call(s, "/tickets/x/reopen").await.code(),
        (404, "not_found")
    );
}

async fn page_parameters_may_be_in_the_body(s: &Server) {
    for slug in ["a", "b", "c", "d", "e"] {
        ticket(s, slug, json!({ "category": "x" })).await;
    }
    ticket(s, "f", json!({})).await;
    let first = s.post("/tickets/search", json!({ "category": "x" })).await;
    assert_eq!(slugs(&first), ["a", "b"]);
    let cursor = first.json()["nextCursor"].clone();
    assert!(cursor.is_string());
    let second = s
        .post(
            "/tickets/search",
            json!({ "category": "x", "cursor": cursor, "limit": 3 }),
        )
        .await;
    assert_eq!(slugs(&second), ["c", "d", "e"]);
    assert_eq!(
        (&second.json()["hasMore"], &second.json()["nextCursor"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(
        slugs(
            &s.post("/tickets/search", json!({ "category": "x", "limit": 99 }))
                .await
        ),
        ["a", "b", "c"]
    );
    assert_eq!(
        slugs(&s.post("/tickets/search", json!({ "category": null })).await),
        ["f"]
    );

    let search = |body| s.post("/tickets/search", body);
    assert_eq!(
        search(json!({ "category": "y", "cursor": cursor }))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    assert_eq!(
        search(json!({ "category": "x", "cursor": "@@@@" }))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    search(json!({ "category": "x", "limit": 0 }))
        .await
        .problem("range", "limit");
    search(json!({ "category": "x", "limit": -1 }))
        .await
        .problem("range", "limit");
    search(json!({ "category": "x", "limit": "2" }))
        .await
        .problem("type", "limit");
    search(json!({ "category": "x", "limit": 1.5 }))
        .await
        .problem("type", "limit");
    search(json!({ "category": "x", "cursor": 5 }))
        .await
        .problem("type", "cursor");
    for query in ["limit=1", "cursor=x", "category=x"] {
        let reply = s.post(&format!("/tickets/search?{query}"), json!({})).await;
        assert_eq!(reply.code(), (400, "unknown_parameter"), "{query}");
    }
}

async fn parameters_come_from_path_and_body(s: &Server) {
    for (slug, state) in [("a", "open"), ("b", "closed"), ("c", "open")] {
        ticket(
            s,
            slug,
            json!({ "category": "x/y", "state": state, "dueAt": "2026-01-01T00:00:00Z" }),
        )
        .await;
    }
    let find_in_category = |body| s.post("/tickets/of/x%2Fy", body);
    assert_eq!(
        slugs(&find_in_category(json!({ "state": "open" })).await),
        ["a", "c"]
    );
    assert_eq!(
        slugs(&find_in_category(json!({ "state": "open", "slugs": ["c", "b"] })).await),
        ["c"]
    );
    assert_eq!(
        slugs(&find_in_category(json!({ "due": "2025-12-31T00:00:00Z" })).await),
        [""; 0]
    );
    assert_eq!(
        slugs(&find_in_category(json!({ "due": "2026-01-01T01:00:00+01:00", "limit": 2 })).await),
        ["a", "b"]
    );
    find_in_category(json!({ "state": "zzz" }))
        .await
        .problem("enum", "state");
    find_in_category(json!({ "slugs": "a" }))
        .await
        .problem("type", "slugs");
    find_in_category(json!({ "slugs": ["a", 1] }))
        .await
        .problem("type", "slugs[1]");
    find_in_category(json!({ "due": "tomorrow" }))
        .await
        .problem("format", "due");
    find_in_category(json!({ "category": "x" }))
        .await
        .problem("unknown_field", "category");
    assert_eq!(
        s.get("/tickets/of/x").await.code(),
        (405, "method_not_allowed")
    );
}

async fn parameters_outside_of_the_path_are_in_the_query(s: &Server) {
    for (slug, state) in [("a", "open"), ("b", "closed")] {
        ticket(s, slug, json!({ "category": "x", "state": state })).await;
    }
    assert_eq!(slugs(&s.get("/tickets/in/x/all").await), ["a", "b"]);
    assert_eq!(slugs(&s.get("/tickets/in/x/all?state=closed").await), ["b"]);
    assert_eq!(slugs(&s.get("/tickets/in/y/all").await), [""; 0]);
    s.get("/tickets/in/x/all?state=zzz")
        .await
        .problem("enum", "query:state");
    assert_eq!(
        s.get("/tickets/in/x/all?category=x").await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(s.get("/tickets/within").await.status, 404);
    assert_eq!(
        s.raw("HEAD", "/tickets/in/x/all", &[], "").await.status,
        200
    );
}

async fn a_list_parameter_may_be_in_the_query(s: &Server) {
    for slug in ["a", "b", "One, two"] {
        ticket(s, slug, json!({})).await;
    }
    for (query, found) in [
        ("slugs=a,b", &["a", "b"][..]),
        ("slugs=a&state=open&slugs=b", &["a", "b"]),
        ("slugs=One%2C%20two", &["One, two"]),
        ("slugs=One%5C,+two,a", &["One, two", "a"]),
        ("slugs=One%2C+two&slugs=b", &["One, two", "b"]),
        ("slugs=a%2Cb", &[]),
    ] {
        assert_eq!(
            slugs(&s.get(&format!("/tickets/among?{query}")).await),
            found,
            "{query}"
        );
    }
    s.get("/tickets/among?slugs=a&slugs=%ff")
        .await
        .problem("format", "query:slugs");
    s.get("/tickets/among?slugs=a&state=open&state=open")
        .await
        .problem("duplicate", "query:state");
}

async fn exists_may_be_a_post(s: &Server) {
    ticket(s, "a", json!({})).await;
    assert_eq!(
        s.post("/tickets/taken", json!({ "slug": "a" }))
            .await
            .json(),
        json!({ "exists": true })
    );
    assert_eq!(
        s.post("/tickets/taken", json!({ "slug": "z" }))
            .await
            .json(),
        json!({ "exists": false })
    );
    s.post("/tickets/taken", json!({}))
        .await
        .problem("required", "slug");
    s.post("/tickets/taken", json!({ "slug": null }))
        .await
        .problem("null_not_allowed", "slug");
    // The other method replaces GET and also HEAD.
    assert_eq!(s.raw("HEAD", "/tickets/taken", &[], "").await.status, 405);
}

async fn a_transition_may_be_a_put(s: &Server) {
    let path = ticket(s, "a", json!({ "state": "closed" })).await;
    let url = format!("{path}/state/open");
    let wrong = call(s, &url).await;
    assert_eq!(
        (wrong.code(), wrong.header("allow")),
        ((405, "method_not_allowed"), "PUT, OPTIONS".to_owned())
    );
    assert_eq!(s.raw("PUT", &url, &[], "").await.json(), json!(true));
    assert_eq!(
        s.raw("PUT", &url, &[], "").await.code(),
        (400, "invalid_transition")
    );
    assert_eq!(
        s.raw("PUT", "/tickets/nope/state/open", &[], "")
            .await
            .code(),
        (404, "not_found")
    );
}

async fn strict_parameters_are_required(s: &Server) {
    ticket(s, "a", json!({})).await;
    s.get("/tickets/strict")
        .await
        .problem("required", "query:slug");
    assert_eq!(s.get("/tickets/strict?slug=a").await.json()["slug"], "a");
    assert_eq!(s.get("/tickets/strict/a").await.json()["slug"], "a");
}

async fn openapi_lists_redefined_routes(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    for (path, method) in [
        ("/tickets/find", "post"),
        ("/tickets/search", "post"),
        ("/tickets/of/{category}", "post"),
        ("/tickets/in/{category}/all", "get"),
        ("/tickets/taken", "post"),
        ("/tickets/{id}/state/open", "put"),
        ("/tickets/{id}/weight", "patch"),
        ("/tickets/by-name/{slug}/close", "post"),
        ("/tickets/{id}/copies/{count}", "post"),
    ] {
        let methods: Vec<_> = paths[path]
            .as_object()
            .unwrap_or_else(|| panic!("{path}"))
            .keys()
            .filter(|k| *k != "parameters")
            .collect();
        assert_eq!(methods, [method], "{path}");
    }
    for gone in [
        "/tickets/find/{slug}",
        "/tickets/within",
        "/tickets/{id}/reopen",
        "/tickets/{id}/load",
    ] {
        assert!(!paths.contains_key(gone), "{gone}");
    }
    let schema =
        paths["/tickets/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
            .clone();
    let schema = match schema["$ref"].as_str() {
        Some(name) => document
            .pointer(name.trim_start_matches('#'))
            .unwrap()
            .clone(),
        None => schema,
    };
    let members: Vec<_> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(members, ["category", "cursor", "limit"]);
    assert_eq!(schema["additionalProperties"], json!(false));
}
