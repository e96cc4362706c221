//! Tests of the catalogue: `PyPI` `jsonschema` checks the schemas and examples of events.

use std::process::Stdio;

use linchpin::Cx;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::bed::{Article, ArticlePatch, TestApp};
use crate::receiver::Receiver;

/// The folder of the programs. `cargo xtask test` installs their libraries.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

/// For each pair of a schema and an instance, the errors of the instance.
async fn errors(tasks: &[(Json, Json)]) -> Vec<Vec<String>> {
    let mut child = Command::new("python3")
        .arg("schema.py")
        .current_dir(PEERS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo xtask test says how the program is installed");
    let tasks = tasks.iter();
    let tasks = tasks.map(|(schema, instance)| json!({ "schema": schema, "instance": instance }));
    let text = tasks.collect::<Json>().to_string();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    serde_json::from_slice(&output.stdout).expect("cargo xtask test installs the library")
}

async fn types(test_app: &TestApp) -> Vec<Json> {
    let all = test_app.get("/webhooks/event-types").await;
    all["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_event_type_has_an_example_that_matches_its_schema() {
    let test_app = TestApp::start().await;
    let types = types(&test_app).await;
    let names: Vec<&str> = types
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    let expected = [
        "shop.orders.created",
        "shop.orders.updated",
        "shop.orders.deleted",
        "shop.orders.pay",
        "shop.articles.updated",
        "shop.articles.deleted",
        "webhook.test",
        "webhooks.endpoint.disabled",
        "webhooks.delivery.dead",
    ];
    assert_eq!(names, expected);
    let tasks: Vec<(Json, Json)> = types
        .iter()
        .map(|one| (one["schema"].clone(), one["example"].clone()))
        .collect();
    for ((name, errors), (_, example)) in names.iter().zip(errors(&tasks).await).zip(&tasks) {
        assert_eq!(errors, [""; 0], "{name}: {example}");
    }
}

#[tokio::test]
async fn an_event_is_found_by_its_name() {
    let test_app = TestApp::start().await;
    let one = test_app.get("/webhooks/event-types/shop.orders.pay").await;
    assert!(types(&test_app).await.contains(&one));
    assert_eq!(one["description"], "Marks an order as paid.");
    assert_eq!(one["entity"], "shop_orders");
    assert_eq!(
        (&one["version"], &one["versions"]),
        (&json!(1), &json!([1]))
    );
    assert_eq!(one["deprecated"], false);
    let schema = &one["schema"];
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert_eq!(
        schema["$id"],
        "/webhooks/event-types/shop.orders.pay?version=1"
    );
    let data = &schema["properties"]["data"];
    assert_eq!(data["properties"]["title"]["maxLength"], 200);
    assert_eq!(
        data["properties"]["tenantId"]["type"],
        json!(["string", "null"])
    );
    assert_eq!(
        data["properties"]["state"]["enum"],
        json!(["open", "shipped"])
    );
    assert_eq!(data["properties"]["createdAt"]["format"], "date-time");
    // Private and write-only fields are in no schema and in no example.
    for hidden in ["margin", "note"] {
        assert!(!one.to_string().contains(hidden), "{hidden}: {one}");
    }
    let admin = test_app.admin();
    let missing = admin.get("/webhooks/event-types/shop.orders.nothing");
    assert_eq!(missing.await.unwrap().status(), 404);
    let member = test_app.caller(Some("t1"), "member");
    let refused = member.get("/webhooks/event-types/shop.orders.pay").await;
    assert_eq!(refused.unwrap().status(), 403);
}

#[tokio::test]
async fn delivered_bodies_match_the_schemas_of_the_catalogue() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    let order = test_app.order("a title, ü").await;
    let path = format!("/orders/{}", order["id"].as_str().unwrap());
    let admin = test_app.admin();
    let pay = format!("{path}/pay");
    let paid = admin.patch(&pay, json!({ "paid": true })).await;
    assert_eq!(paid.unwrap().status(), 200);
    assert_eq!(admin.delete(&path).await.unwrap().status(), 204);
    let types = types(&test_app).await;
    let schema = |name: &Json| {
        let found = types.iter().find(|one| one["name"] == *name);
        found.unwrap()["schema"].clone()
    };
    let mut tasks = Vec::new();
    for arrived in receiver.until(3).await {
        let body = arrived.json();
        tasks.push((schema(&body["type"]), body));
    }
    for (errors, (_, body)) in errors(&tasks).await.iter().zip(&tasks) {
        assert!(errors.is_empty(), "{body}: {errors:?}");
    }
    // The schema refuses other bodies.
    let (schema, body) = &tasks[0];
    let wrong: Vec<(Json, Json)> = [
        ("/type", json!("shop.orders.updated")),
        ("/timestamp", json!("yesterday")),
        ("/data", Json::Null),
        ("/data/title", json!("")),
        ("/data/title", Json::Null),
        ("/data/state", json!("lost")),
        ("/data/createdAt", json!("2026-01-02")),
    ]
    .into_iter()
    .map(|(pointer, value)| {
        let mut body = body.clone();
        *body.pointer_mut(pointer).unwrap() = value;
        (schema.clone(), body)
    })
    .collect();
    for (errors, (_, body)) in errors(&wrong).await.iter().zip(&wrong) {
        assert!(!errors.is_empty(), "the schema accepts {body}");
    }
}

#[tokio::test]
async fn an_event_is_sent_only_if_its_record_satisfies_the_condition() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    let admin = test_app.admin();
    let mut paths = Vec::new();
    for title in ["public", "internal"] {
        let made = admin.post("/articles", json!({ "title": title })).await;
        let article = made.unwrap().json().unwrap();
        paths.push(format!("/articles/{}", article["id"].as_str().unwrap()));
    }
    // The first article is published in the second step. In the last step it becomes a draft again.
    for change in [
        json!({ "title": "draft" }),
        json!({ "status": "published" }),
        json!({ "title": "news" }),
        json!({ "status": "draft" }),
    ] {
        let changed = admin.patch(&paths[0], change).await.unwrap();
        assert_eq!(changed.status(), 200, "{:?}", changed.text());
    }
    // The condition on the second article reads a field that clients cannot see.
    let articles = test_app.app.adapter::<Article>().unwrap();
    let patch = ArticlePatch {
        internal: Some(true),
        ..ArticlePatch::default()
    };
    let id = paths[1].trim_start_matches("/articles/");
    let cx = Cx::system("a test");
    articles.update(&cx, id, patch, None).await.unwrap();
    for path in paths.iter().rev() {
        assert_eq!(admin.delete(path).await.unwrap().status(), 204);
    }
    test_app.order("the last event").await;
    let sent: Vec<(String, String)> = receiver
        .until(4)
        .await
        .iter()
        .map(|arrived| {
            let body = arrived.json();
            let text = |pointer: &str| body.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            (text("/type"), text("/data/title"))
        })
        .collect();
    let expected = [
        ("shop.articles.updated", "draft"),
        ("shop.articles.updated", "news"),
        ("shop.articles.deleted", "news"),
        ("shop.orders.created", "the last event"),
    ];
    assert_eq!(sent.len(), expected.len());
    for one in expected {
        let one = (one.0.to_owned(), one.1.to_owned());
        assert!(sent.contains(&one), "{one:?}: {sent:?}");
    }
    // There are no deliveries of other events.
    assert_eq!(test_app.deliveries().await.len(), 4);
}

#[tokio::test]
async fn the_openapi_document_lists_the_same_events() {
    let test_app = TestApp::start().await;
    let document = test_app.get("/openapi.json").await;
    let listed = document["webhooks"].as_object().unwrap();
    let types = types(&test_app).await;
    assert_eq!(listed.len(), types.len());
    for one in &types {
        let post = &listed[one["name"].as_str().unwrap()]["post"];
        assert_eq!(post["description"], one["description"]);
        let content = &post["requestBody"]["content"]["application/json"];
        assert_eq!(content["schema"], one["schema"]);
        assert_eq!(content["example"], one["example"]);
    }
}
