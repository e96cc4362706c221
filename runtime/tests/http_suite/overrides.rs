//! Overrides replace the executor of a route; checks and response handling stay.

use std::sync::Arc;

use linchpin::http::{Endpoint, Inputs};
use linchpin::resource::{Form, Outcome};
use serde_json::json;

use crate::fixture::{blog_with, slugs};

fn endpoint<'a>(endpoints: &'a mut [Endpoint], path: &str, name: &str) -> &'a mut Endpoint {
    endpoints
        .iter_mut()
        .find(|e| e.path == path && e.name == name)
        .unwrap()
}

#[tokio::test]
async fn create_may_be_replaced() {
    let app = blog_with(|endpoints, _| {
        endpoint(endpoints, "/posts", "create").run = Some(Arc::new(|mut call| {
            Box::pin(async move {
                let Inputs::Create(draft) = &mut call.inputs else {
                    unreachable!()
                };
                draft.values[4] = Some(linchpin::Value::Text("set by the override".into()));
                let Inputs::Create(draft) = call.inputs else {
                    unreachable!()
                };
                Ok(Outcome::Record(
                    call.table.create(&call.cx, draft, &call.form).await?.0,
                ))
            })
        }));
    })
    .await;
    let answer = app
        .json("POST", "/posts", json!({ "slug": "a", "title": "A" }))
        .await;
    assert_eq!(
        (answer.summary().as_str(), &answer.json()["category"]),
        ("201", &json!("set by the override"))
    );
    assert_eq!(
        answer.header("location"),
        format!("/posts/{}", answer.json()["id"].as_str().unwrap())
    );
    assert_eq!(
        app.json("POST", "/posts", json!({ "x": 1 }))
            .await
            .summary(),
        "400 validation_failed slug=required title=required x=unknown_field"
    );
}

#[tokio::test]
async fn an_override_never_sees_invalid_input() {
    let app = blog_with(|endpoints, _| {
        for (path, name) in [
            ("/posts", "create"),
            ("/posts/{id}", "update"),
            ("/posts/{id}", "delete"),
            ("/posts/slug-taken", "slug_taken"),
        ] {
            endpoint(endpoints, path, name).run = Some(Arc::new(|_| panic!("called")));
        }
    })
    .await;
    for (method, path, body, expected) in [
        (
            "POST",
            "/posts",
            json!({ "title": "" }),
            "slug=required title=min_length",
        ),
        (
            "PATCH",
            "/posts/x",
            json!({ "title": null, "slug": 1 }),
            "slug=type title=null_not_allowed",
        ),
        ("DELETE", "/posts/x", json!({ "x": 1 }), "x=unknown_field"),
        ("GET", "/posts/slug-taken", json!({}), "query:slug=required"),
    ] {
        assert_eq!(
            app.json(method, path, body).await.summary(),
            format!("400 validation_failed {expected}"),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn responses_of_overrides_are_projected() {
    let app = blog_with(|endpoints, _| {
        endpoint(endpoints, "/posts", "list").run = Some(Arc::new(|call| {
            Box::pin(async move {
                let Inputs::List(request) = call.inputs else {
                    unreachable!()
                };
                call.table.list(&call.cx, request, &Form::Records).await
            })
        }));
    })
    .await;
    app.post("a", json!({ "pin": "1234" })).await;
    app.post("b", json!({})).await;
    let answer = app.get("/posts").await;
    assert_eq!(slugs(&answer), ["a", "b"]);
    assert!(answer.json()["items"][0].get("pin").is_none());
    assert_eq!(
        app.get("/posts?limit=0").await.summary(),
        "400 validation_failed query:limit=range"
    );
}

#[tokio::test]
async fn operations_can_be_overridden_and_wrong_result_types_are_internal_errors() {
    let app = blog_with(|endpoints, _| {
        endpoint(endpoints, "/posts/slug-taken", "slug_taken").run = Some(Arc::new(|call| {
            Box::pin(async move {
                let Inputs::Operation(args, ..) = call.inputs else {
                    unreachable!()
                };
                Ok(Outcome::Boolean(
                    args[0] == Some(linchpin::Value::Text("odd".into())),
                ))
            })
        }));
        endpoint(endpoints, "/posts/by-slug", "by_slug").run =
            Some(Arc::new(|_| Box::pin(async { Ok(Outcome::Boolean(true)) })));
    })
    .await;
    assert_eq!(
        app.get("/posts/slug-taken?slug=odd").await.json(),
        json!({ "exists": true })
    );
    assert_eq!(
        app.get("/posts/slug-taken?slug=even").await.json(),
        json!({ "exists": false })
    );
    assert_eq!(
        app.get("/posts/by-slug?slug=a").await.summary(),
        "500 internal"
    );
}
