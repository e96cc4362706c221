//! Authentication, authorization, and the order of checks.

use std::sync::Arc;

use axum::http::request::Parts;
use linchpin::http::{ActorResolver, AuthCheck, Origin, Resolution};
use linchpin::{Actor, Code, Error};
use serde_json::json;

use crate::fixture::{App, blog};

/// Reads the actor from the headers `x-user` and `x-roles`. With `x-slow`, the actor is resolved
/// asynchronously. `x-user: bad` is refused, and `x-user: ended` is an anonymous caller with an
/// invalid credential.
pub struct Headers;

impl ActorResolver for Headers {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
        let actor = match header("x-user") {
            None => Ok(Arc::new(Actor::anonymous())),
            Some("ended") => Ok(Arc::new(Actor::with_invalid_credential())),
            Some("bad") => Err(Error::new(
                Code::Other(401, "token_expired"),
                "The token has expired",
            )),
            Some(id) => {
                let roles = header("x-roles")
                    .unwrap_or_default()
                    .split(',')
                    .filter(|r| !r.is_empty());
                Ok(Arc::new(Actor::user(id).with_roles(roles)))
            }
        };
        if header("x-slow").is_some() {
            return Resolution::Later(Box::pin(async {
                tokio::task::yield_now().await;
                actor
            }));
        }
        Resolution::Ready(actor)
    }
}

/// A further `auth` name, which admits only the actor `ed`.
pub fn editor() -> AuthCheck {
    Arc::new(|actor| match actor.id.as_deref() {
        Some("ed") => Ok(()),
        Some(_) => Err(Error::forbidden()),
        None => Err(Error::unauthorized()),
    })
}

const JSON: (&str, &str) = ("content-type", "application/json");

async fn note(app: &App, id: &str) {
    let body = json!({ "id": id, "text": "t" }).to_string();
    let answer = app
        .send("POST", "/notes", &[JSON, ("x-user", "u")], body)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.summary());
}

#[tokio::test]
async fn routes_are_closed_unless_opened() {
    let app = blog().await;
    for (method, path) in [
        ("POST", "/notes"),
        ("GET", "/notes"),
        ("PATCH", "/notes/a"),
        ("DELETE", "/notes/a"),
    ] {
        let answer = app.send(method, path, &[JSON], "not json").await;
        assert_eq!(answer.summary(), "401 unauthorized", "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    assert_eq!(app.get("/notes/a").await.summary(), "404 not_found");
    assert_eq!(
        app.send("GET", "/notes", &[("x-user", "u"), ("x-slow", "1")], "")
            .await
            .summary(),
        "200"
    );
}

#[tokio::test]
async fn only_private_responses_are_not_cached() {
    let app = blog().await;
    note(&app, "a").await;
    assert_eq!(
        app.send("GET", "/notes", &[("x-user", "u")], "")
            .await
            .header("cache-control"),
        "no-store"
    );
    assert_eq!(app.get("/notes/a").await.header("cache-control"), "");
    assert_eq!(app.get("/posts").await.header("cache-control"), "");
}

#[tokio::test]
async fn a_public_route_reports_an_invalid_credential() {
    let app = blog().await;
    note(&app, "a").await;
    const INVALID: &str = "Bearer error=\"invalid_token\"";
    let ended = [("x-user", "ended"), JSON];
    for (method, path, body, summary) in [
        ("GET", "/notes/a", "", "200"),
        ("HEAD", "/notes/a", "", "200"),
        ("GET", "/posts", "", "200"),
        // With a valid credential, the caller might see a record that anonymous callers do not see.
        ("GET", "/notes/b", "", "404 not_found"),
        ("POST", "/posts", "not json", "400 malformed_json"),
    ] {
        for slow in [false, true] {
            let headers = [&ended[..], if slow { &[("x-slow", "1")] } else { &[] }].concat();
            let answer = app.send(method, path, &headers, body).await;
            assert_eq!(answer.summary(), summary, "{method} {path}");
            assert_eq!(
                answer.header("www-authenticate"),
                INVALID,
                "{method} {path}"
            );
            assert_eq!(
                answer.header("cache-control"),
                "no-store",
                "{method} {path}"
            );
            assert_eq!(
                app.send(method, path, &[JSON], body)
                    .await
                    .header("www-authenticate"),
                "",
                "{method} {path}"
            );
            assert_eq!(
                app.send(method, path, &[JSON, ("x-user", "u")], body)
                    .await
                    .header("www-authenticate"),
                "",
                "{method} {path}"
            );
        }
    }
    // A route that needs a caller returns 401.
    let refused = app.send("GET", "/notes", &ended, "").await;
    assert_eq!(
        (
            refused.summary().as_str(),
            refused.header("www-authenticate")
        ),
        ("401 unauthorized", "Bearer")
    );
}

#[tokio::test]
async fn a_resolver_may_refuse_a_credential() {
    let app = blog().await;
    let answer = app.send("GET", "/notes/a", &[("x-user", "bad")], "").await;
    assert_eq!(answer.summary(), "401 token_expired");
    assert_eq!(
        answer.header("www-authenticate"),
        "",
        "only `unauthorized` has the header"
    );
}

#[tokio::test]
async fn roles_and_named_checks_refuse_other_callers() {
    let app = blog().await;
    note(&app, "a").await;
    let delete = |headers: &'static [(&str, &str)]| app.send("DELETE", "/notes/a", headers, "");
    assert_eq!(
        delete(&[
            ("x-user", "u"),
            ("x-roles", "user"),
            ("if-match", "garbage")
        ])
        .await
        .summary(),
        "403 forbidden"
    );
    assert_eq!(
        delete(&[("x-roles", "admin")]).await.summary(),
        "401 unauthorized"
    );
    let other = app
        .send(
            "PATCH",
            "/notes/a",
            &[JSON, ("x-user", "u"), ("if-match", "\"1\"")],
            "{}",
        )
        .await;
    let editor = app
        .send(
            "PATCH",
            "/notes/a",
            &[JSON, ("x-user", "ed"), ("if-match", "\"1\"")],
            "{}",
        )
        .await;
    assert_eq!(
        (other.summary().as_str(), editor.summary().as_str()),
        ("403 forbidden", "200")
    );
    assert_eq!(
        delete(&[("x-user", "u"), ("x-roles", "admin"), ("if-match", "\"1\"")])
            .await
            .summary(),
        "204"
    );
}

#[tokio::test]
async fn checks_have_a_fixed_order() {
    let app = blog().await;
    note(&app, "a").await;
    let long = "x".repeat(100);
    let create = |headers: Vec<(&'static str, &'static str)>, query: &'static str, body: String| {
        let app = &app;
        async move {
            app.send("POST", &format!("/notes{query}"), &headers, body)
                .await
                .summary()
        }
    };
    // Each request also contains all mistakes that later checks would find.
    assert_eq!(
        create(vec![], "?x=1", long.clone()).await,
        "401 unauthorized"
    );
    assert_eq!(
        create(vec![("x-user", "u")], "?x=1", long).await,
        "413 body_too_large"
    );
    assert_eq!(
        create(vec![("x-user", "u")], "?x=1", "{".into()).await,
        "400 unknown_parameter query:x=unknown_parameter"
    );
    assert_eq!(
        create(vec![("x-user", "u")], "", "{".into()).await,
        "415 unsupported_media_type"
    );
    assert_eq!(
        create(vec![("x-user", "u"), JSON], "", "{".into()).await,
        "400 malformed_json"
    );
    assert_eq!(
        create(
            vec![("x-user", "u"), JSON],
            "",
            r#"{"id":"a","x":1}"#.into()
        )
        .await,
        "400 validation_failed text=required x=unknown_field"
    );
    assert_eq!(
        create(
            vec![("x-user", "u"), JSON],
            "",
            r#"{"id":"a","text":""}"#.into()
        )
        .await,
        "409 conflict id=unique"
    );

    let patch =
        |headers: Vec<(&'static str, &'static str)>, id: &'static str, body: &'static str| {
            let app = &app;
            async move {
                let headers: Vec<_> = headers
                    .into_iter()
                    .chain([("x-user", "ed"), JSON])
                    .collect();
                app.send("PATCH", &format!("/notes/{id}"), &headers, body)
                    .await
                    .summary()
            }
        };
    assert_eq!(
        patch(vec![], "none", r#"{"text":null}"#).await,
        "400 validation_failed text=null_not_allowed"
    );
    assert_eq!(
        patch(vec![], "none", r#"{"text":"n"}"#).await,
        "428 precondition_required"
    );
    assert_eq!(
        patch(vec![("if-match", "\"7\"")], "none", r#"{"text":"n"}"#).await,
        "404 not_found"
    );
    assert_eq!(
        patch(vec![("if-match", "\"7\"")], "a", r#"{"text":"n"}"#).await,
        "412 precondition_failed"
    );
    assert_eq!(
        patch(vec![("if-match", "*")], "a", r#"{"text":null}"#).await,
        "400 validation_failed header:If-Match=format text=null_not_allowed"
    );
    // No request changed the record.
    let stored = app.get("/notes/a").await.json();
    assert_eq!(stored, json!({ "id": "a", "text": "t", "version": 1 }));
}

#[tokio::test]
async fn each_problem_of_a_restricted_body_is_reported_once() {
    let app = crate::fixture::blog_with(|endpoints, _| {
        for endpoint in endpoints
            .iter_mut()
            .filter(|e| e.name == "create" && e.path == "/posts")
        {
            endpoint.policy.input = Some(&["slug", "title", "tags"]);
        }
    })
    .await;
    let answer = app
        .json(
            "POST",
            "/posts",
            json!({ "slug": "a", "title": "a", "tags": [1], "tags[0]": 1, "score": "x" }),
        )
        .await;
    assert_eq!(
        answer.summary(),
        "400 validation_failed score=unknown_field tags[0]=type tags[0]=unknown_field"
    );
    // An unknown member hides problems inside it, but not those of members with the same name
    // elsewhere.
    let answer = app
        .json(
            "POST",
            "/posts",
            json!({ "slug": "a", "title": "a", "status": [], "status[1]": 1, "status.x": 2 }),
        )
        .await;
    assert_eq!(
        answer.summary(),
        "400 validation_failed status=unknown_field status.x=unknown_field status[1]=unknown_field"
    );
    let mut many: serde_json::Map<String, serde_json::Value> =
        (0..500).map(|i| (format!("m{i:03}"), json!(1))).collect();
    many.extend([
        ("slug".to_owned(), json!("a")),
        ("title".to_owned(), json!("a")),
    ]);
    let answer = app.json("POST", "/posts", many.into()).await;
    assert_eq!(answer.json()["details"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn responses_to_hostile_requests_are_bounded() {
    let app = blog().await;
    let id = app.post("a", json!({})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let members: Vec<String> = (0..400).map(|i| format!("\"m{i}\":1")).collect();
    let body = format!("{{{}}}", members.join(","));
    for (method, path) in [
        ("GET", "/posts".to_owned()),
        ("GET", format!("/posts/{id}")),
        ("DELETE", format!("/posts/{id}")),
    ] {
        let answer = app.send(method, &path, &[JSON], body.clone()).await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.json()["details"].as_array().unwrap().len()
            ),
            (400, 100),
            "{method} {path}"
        );
    }
    let repeated = |path: &str, pair: &str| format!("{path}?{}", vec![pair; 1000].join("&"));
    for (uri, expected) in [
        (
            repeated("/posts", "slug=a"),
            "400 validation_failed query:slug=duplicate",
        ),
        (
            repeated("/posts", "limit=1"),
            "400 validation_failed query:limit=duplicate",
        ),
        (
            repeated("/posts/by-slug", "slug=a"),
            "400 validation_failed query:slug=duplicate",
        ),
    ] {
        assert_eq!(app.get(&uri).await.summary(), expected);
    }
}

#[tokio::test]
async fn filters_that_no_text_can_match_are_refused() {
    let app = blog().await;
    for (query, path) in [
        ("title[contains]=a%00", "query:title[contains]"),
        ("tags[has]=%00", "query:tags[has]"),
        ("title=%00", "query:title"),
        ("title[in]=a,%00", "query:title[in]"),
    ] {
        let answer = app.get(&format!("/posts?{query}")).await;
        assert_eq!(
            answer.summary(),
            format!("400 validation_failed {path}=format"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn responses_to_authenticated_callers_are_not_cached() {
    let app = blog().await;
    assert_eq!(app.get("/posts").await.header("cache-control"), "");
    for (path, headers) in [
        ("/posts", &[("x-user", "u")][..]),
        ("/posts", &[("x-user", "bad")]),
        ("/posts/none", &[]),
    ] {
        assert_eq!(
            app.send("GET", path, headers, "")
                .await
                .header("cache-control"),
            "no-store",
            "{path} {headers:?}"
        );
    }
}
