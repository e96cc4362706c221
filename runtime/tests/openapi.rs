//! The OpenAPI document is complete, stable and valid, and matches every response.

use std::collections::BTreeSet;

use linchpin::openapi::{Info, document};
use serde_json::Value as Json;

#[path = "support/document.rs"]
mod faults;
#[path = "openapi/fixture.rs"]
mod fixture;
#[path = "openapi/live.rs"]
mod live;

use faults::{against_meta_schema, against_routes, within_itself};

fn text() -> String {
    document(&Info::new("Blog", "1.2.3"), &fixture::endpoints(), &[])
}

fn json() -> Json {
    serde_json::from_str(&text()).expect("the document is JSON")
}

#[test]
fn the_document_satisfies_the_meta_schema() {
    let document = json();
    let faults = against_meta_schema(&document);
    assert!(faults.is_empty(), "{faults:#?}");
    // The check refuses a wrong document.
    let mut broken = document;
    broken["paths"]["/posts"]["get"]["parameters"][0]["in"] = "body".into();
    assert!(!against_meta_schema(&broken).is_empty());
}

#[test]
fn every_schema_is_a_json_schema_and_every_reference_resolves() {
    let (faults, schemas) = within_itself(&json());
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(schemas > 50, "only {schemas} schemas were checked");
}

#[test]
fn the_document_has_every_endpoint_under_a_unique_id() {
    let document = json();
    let endpoints = fixture::endpoints();
    let mut operations = 0;
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for (method, operation) in item.as_object().unwrap() {
            operations += usize::from(method != "head");
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{id} twice");
        }
    }
    assert_eq!(operations, endpoints.len());
    let faults = against_routes(&document, &endpoints);
    assert!(faults.is_empty(), "{faults:#?}");
    for id in [
        "post_create",
        "post_bySlug",
        "post_bySlug_byPath",
        "post_slugTaken_head",
        "post_slugTaken_byPath_head",
        "newsPost_publish",
    ] {
        assert!(ids.contains(id), "{id} is missing from {ids:?}");
    }
}

#[test]
fn the_document_declares_each_path_parameter_once() {
    for (path, item) in json()["paths"].as_object().unwrap() {
        let segments: BTreeSet<&str> = path
            .split('/')
            .filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let mut seen = BTreeSet::new();
            for p in &parameters {
                assert!(
                    seen.insert((p["in"].as_str(), p["name"].as_str())),
                    "{method} {path}: {p} twice"
                );
            }
            let declared: BTreeSet<&str> = parameters
                .iter()
                .filter(|p| p["in"] == "path")
                .filter_map(|p| p["name"].as_str())
                .collect();
            assert_eq!(declared, segments, "{method} {path}");
        }
    }
}

#[test]
fn the_document_never_names_a_private_field() {
    let text = text();
    assert!(!text.contains("secretNote") && !text.contains("secret_note"));
    assert!(
        !text.contains("hush-hush"),
        "the default of a sensitive field"
    );
    assert_eq!(
        json()["components"]["schemas"]["Post"]["properties"]["pin"]["writeOnly"],
        true
    );
}

#[test]
fn the_document_is_stable_and_sorted() {
    let text = text();
    assert_eq!(text, self::text());
    let mut sorted: Json = serde_json::from_str(&text).unwrap();
    sorted.sort_all_objects();
    assert_eq!(text, sorted.to_string());
}

#[test]
fn schemas_accept_the_bodies_that_the_server_accepts() {
    let document = json();
    let check = |schema: &str, body: Json| {
        let mut root = document.clone();
        root["$ref"] = format!("#/components/schemas/{schema}").into();
        jsonschema::options()
            .should_validate_formats(true)
            .build(&root)
            .expect("compiles")
            .is_valid(&body)
    };
    let good = serde_json::json!({ "slug": "a", "title": "A" });
    let with = |key: &str, value: Json| {
        let mut body = good.clone();
        body[key] = value;
        body
    };
    assert!(check("PostCreate", good.clone()));
    assert!(check("PostCreate", with("email", Json::Null)));
    assert!(check("PostCreate", with("code", "12".into())));
    assert!(check("PostCreate", with("category", Json::Null)));
    for (key, value) in [
        ("title", "".into()),
        ("title", Json::Null),
        ("email", "nope".into()),
        ("status", "zzz".into()),
        ("score", 101.into()),
        ("score", 1.5.into()),
        ("code", "a1".into()),
        ("grade", "c".into()),
        ("tags", serde_json::json!(["a", "a"])),
        ("tags", serde_json::json!([""])),
        ("members", serde_json::json!([{ "name": "no id" }])),
        ("dueAt", "2026-01-02".into()),
        ("bogus", 1.into()),
        ("id", "mine".into()),
        ("createdAt", "2026-01-02T00:00:00Z".into()),
        ("version", 1.into()),
        ("secretNote", "x".into()),
    ] {
        assert!(
            !check("PostCreate", with(key, value.clone())),
            "{key} = {value} passes"
        );
    }
    assert!(check("PostUpdate", serde_json::json!({})));
    assert!(check("PostUpdate", serde_json::json!({ "title": "B" })));
    assert!(
        !check("PostUpdate", serde_json::json!({ "ownerId": "x" })),
        "immutable"
    );
    assert!(check(
        "PostPublishInput",
        serde_json::json!({ "dueAt": null })
    ));
    assert!(!check("PostPublishInput", serde_json::json!({})));
    // If the name of an entity is taken, its schemas get another name.
    assert!(check("NewsPostCreate", good.clone()));
    assert!(check("Error2Create", serde_json::json!({ "id": "42" })));
    assert!(!check("Error2Create", serde_json::json!({ "id": 42 })));
    assert!(check(
        "Error",
        serde_json::json!({ "error": "Not found", "code": "not_found", "requestId": "x" })
    ));
}

#[test]
fn errors_security_and_preconditions_follow_the_policy() {
    let document = json();
    let operation = |path: &str, method: &str| document["paths"][path][method].clone();
    let statuses = |o: &Json| -> Vec<String> {
        o["responses"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };

    let list = operation("/posts", "get");
    assert_eq!(list["security"], serde_json::json!([]));
    assert_eq!(
        statuses(&list),
        ["200", "400", "413", "414", "415", "500", "503", "504"]
    );
    let names: Vec<&str> = list["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|p| p["name"].as_str())
        .collect();
    for name in [
        "limit",
        "cursor",
        "sort",
        "sortDir",
        "status",
        "status[in]",
        "title[contains]",
        "dueAt[gte]",
        "dueAt[null]",
        "live[ne]",
    ] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    for name in [
        "live[in]",
        "live[gt]",
        "status[gt]",
        "pin",
        "score",
        "title[null]",
        "meta",
    ] {
        assert!(!names.contains(&name), "{name} is not a parameter");
    }
    assert_eq!(
        list["parameters"][2]["schema"]["enum"],
        serde_json::json!(["id", "title", "dueAt", "createdAt"])
    );

    let delete = operation("/posts/{id}", "delete");
    assert_eq!(delete["security"], serde_json::json!([{ "userAuth": [] }]));
    assert_eq!(delete["x-linchpin-roles"], serde_json::json!(["admin"]));
    assert_eq!(
        statuses(&delete),
        [
            "204", "400", "401", "403", "404", "409", "412", "413", "414", "415", "428", "500",
            "503", "504"
        ]
    );
    let if_match = delete["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["name"] == "If-Match")
        .unwrap();
    assert_eq!(if_match["required"], true);

    let create = operation("/posts", "post");
    assert!(create["responses"]["201"]["headers"]["Location"].is_object());
    assert!(create["responses"]["201"]["headers"]["ETag"].is_object());
    let get = operation("/posts/{id}", "get");
    assert!(get["responses"]["304"].is_object());

    let publish = operation("/posts/{id}/publish", "post");
    let bad = document
        .pointer(
            publish["responses"]["400"]["$ref"]
                .as_str()
                .unwrap()
                .trim_start_matches('#'),
        )
        .unwrap();
    let codes =
        &bad["content"]["application/json"]["schema"]["allOf"][1]["properties"]["code"]["enum"];
    assert_eq!(
        *codes,
        serde_json::json!([
            "invalid_transition",
            "malformed_json",
            "unknown_parameter",
            "validation_failed"
        ])
    );
    assert_eq!(publish["summary"], "Publishes.");
    assert_eq!(publish["description"], "Publishes.\n\nOnly drafts can be.");

    let by_owner = operation("/posts/by-owner", "get");
    assert_eq!(
        by_owner["x-linchpin-filter"],
        serde_json::json!({ "status": { "$in": "param:states" } })
    );
    assert!(
        operation("/posts/by-slug", "get")["x-linchpin-filter"].is_null(),
        "the document names a private field"
    );

    let taken = operation("/posts/slug-taken", "head");
    assert!(
        taken["responses"]["404"].is_object() && taken["responses"]["200"]["content"].is_null()
    );
    assert!(document["components"]["securitySchemes"]["partner"].is_object());
}

#[test]
fn the_golden_document_is_up_to_date() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openapi/post.json");
    let mut now = serde_json::to_string_pretty(&json()).unwrap();
    now.push('\n');
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &now).unwrap();
    }
    let stored = std::fs::read_to_string(golden).unwrap_or_default();
    assert!(
        stored == now,
        "the document changed; read the difference after UPDATE_GOLDEN=1 cargo test -p linchpin --test openapi"
    );
}

/// The bytes of a response's body.
async fn body(response: axum::response::Response) -> Vec<u8> {
    axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("an answer")
        .to_vec()
}

async fn ask(
    router: &axum::Router,
    path: &str,
    if_none_match: Option<&str>,
) -> axum::response::Response {
    use tower_service::Service;
    let mut request = axum::http::Request::get(path);
    if let Some(tag) = if_none_match {
        request = request.header("if-none-match", tag);
    }
    router
        .clone()
        .call(request.body(axum::body::Body::empty()).expect("an answer"))
        .await
        .unwrap()
}

#[tokio::test]
async fn the_document_is_served_with_a_tag() {
    let router = linchpin::openapi::openapi_router(text());
    let first = ask(&router, "/openapi.json", None).await;
    assert_eq!(first.status(), 200);
    assert_eq!(first.headers()["content-type"], "application/json");
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(body(first).await, text().into_bytes());
    let again = ask(&router, "/openapi.json", Some(&format!("\"other\", {tag}"))).await;
    assert_eq!(again.status(), 304);
    assert_eq!(body(again).await, b"");
    assert_eq!(
        ask(&router, "/openapi.json", Some("\"other\""))
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn the_docs_page_loads_only_its_own_files() {
    let router = linchpin::openapi::docs_router();
    let page = ask(&router, "/docs", None).await;
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.starts_with("default-src 'none'")
            && !policy.contains("unsafe")
            && !policy.contains("http"),
        "{policy}"
    );
    let html = String::from_utf8(body(page).await).unwrap();
    let mut files = 0;
    for link in html
        .split(['"', '\''])
        .filter(|s| s.starts_with("docs/") || s.contains("://"))
    {
        let file = ask(&router, &format!("/{link}"), None).await;
        assert_eq!(file.status(), 200, "{link}");
        assert!(
            linchpin::openapi::PATHS.contains(&format!("/{link}").as_str()),
            "{link} is not among PATHS"
        );
        if file.headers().contains_key("content-encoding") {
            assert!(
                body(file).await.starts_with(&[0x1f, 0x8b]),
                "{link} is not gzip"
            );
        }
        files += 1;
    }
    assert_eq!(files, 3, "{html}");
    assert_eq!(ask(&router, "/docs/other.js", None).await.status(), 404);
}
