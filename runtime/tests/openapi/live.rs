//! Compares the document with the service: the document must describe every response, for any
//! request.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, Response};
use linchpin::Actor;
use linchpin::http::{ActorResolver, HttpService, HttpState, Origin, Resolution, RouteAuth};
use serde_json::{Value as Json, json};
use tower_service::Service;

use super::fixture;

/// Reads the actor from the header `x-actor`: `alice editor` is the user `alice` with the role
/// `editor`.
struct ByHeader;

impl ActorResolver for ByHeader {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let mut words = parts
            .headers
            .get("x-actor")
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .split_whitespace();
        let actor = words.next().map_or_else(Actor::anonymous, |id| Actor {
            roles: words.map(str::to_owned).collect(),
            ..Actor::user(id)
        });
        Resolution::Ready(Ok(Arc::new(actor)))
    }
}

fn service() -> HttpService {
    let adapters = fixture::adapters();
    let endpoints = linchpin::http::endpoints(&fixture::PACKAGE, "/", &adapters);
    let mut auth = RouteAuth::default();
    auth.named
        .insert("partner".to_owned(), Arc::clone(&auth.user_auth).into());
    let mut state = HttpState::new(adapters);
    state.resolver = Some(Arc::new(ByHeader));
    state.auth = auth;
    linchpin::http::service(endpoints, state).expect("the service")
}

/// A service with its document, and the observed responses.
struct Live {
    service: HttpService,
    document: Json,
    /// `(operationId, status, code)`
    seen: BTreeSet<(String, u16, String)>,
    faults: Vec<String>,
    /// Schema validators, compiled once per schema text.
    validators: HashMap<String, jsonschema::Validator>,
}

impl Live {
    /// Sends a request to a route of the document, and compares the response with the document.
    async fn send(
        &mut self,
        template: &str,
        uri: &str,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Json) {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Ok(response) = self
            .service
            .call(
                request
                    .body(Body::from(body.to_owned()))
                    .expect("a request"),
            )
            .await;
        let operation = self.document["paths"][template][method.to_ascii_lowercase()].clone();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX)
            .await
            .expect("a body");
        let status = parts.status.as_u16();
        let answer: Json = serde_json::from_slice(&bytes).unwrap_or(Json::Null);
        let code = answer["code"].as_str().unwrap_or_default().to_owned();
        self.seen.insert((
            operation["operationId"]
                .as_str()
                .expect("a declared operation")
                .to_owned(),
            status,
            code,
        ));
        if let Err(fault) = self.check(
            &operation,
            &Response::from_parts(parts, ()),
            &bytes,
            &answer,
        ) {
            self.faults.push(format!(
                "{method} {uri} {headers:?}: {status} {}: {fault}",
                String::from_utf8_lossy(&bytes)
            ));
        }
        (status, answer)
    }

    fn check(
        &mut self,
        operation: &Json,
        response: &Response<()>,
        bytes: &[u8],
        answer: &Json,
    ) -> Result<(), String> {
        let status = response.status().as_u16().to_string();
        let mut declared = &operation["responses"][&status];
        if let Some(target) = declared["$ref"].as_str() {
            declared = self
                .document
                .pointer(&target[1..])
                .ok_or(format!("the reference {target} has no target"))?;
        }
        if declared.is_null() && operation["responses"]["default"].is_null() {
            return Err("the document does not announce this status".to_owned());
        }
        for (name, header) in declared["headers"].as_object().into_iter().flatten() {
            let target = header["$ref"]
                .as_str()
                .ok_or("a header must be a reference")?;
            let always = self
                .document
                .pointer(&target[1..])
                .is_some_and(|h| h["required"] == true);
            // A lookup without a match returns `null`, which has no version.
            if !response.headers().contains_key(name) && (always || *answer != Json::Null) {
                return Err(format!("header {name} is missing"));
            }
        }
        let Some(content) = declared["content"]["application/json"].as_object() else {
            return if bytes.is_empty() || !operation["responses"]["default"].is_null() {
                Ok(())
            } else {
                Err("a body".to_owned())
            };
        };
        if response
            .headers()
            .get("content-type")
            .is_none_or(|v| v != "application/json")
        {
            return Err("not announced as JSON".to_owned());
        }
        let validator = match self.validators.entry(content["schema"].to_string()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut schema = self.document.clone();
                schema["allOf"] = json!([content["schema"]]);
                new.insert(
                    jsonschema::options()
                        .should_validate_formats(true)
                        .build(&schema)
                        .map_err(|e| e.to_string())?,
                )
            }
        };
        let faults: Vec<String> = validator
            .iter_errors(answer)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("; "))
        }
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const ADMIN: (&str, &str) = ("x-actor", "alice admin");

#[tokio::test]
async fn every_response_is_one_that_the_document_announces() {
    let document: Json = serde_json::from_str(&super::text()).expect("JSON");
    let mut live = Live {
        service: service(),
        document: document.clone(),
        seen: BTreeSet::new(),
        faults: Vec::new(),
        validators: HashMap::new(),
    };
    let mut ids = Vec::new();
    for slug in ["one", "two", "three", "four"] {
        let body = json!({
            "slug": slug, "title": "T", "email": "a@b.co", "tags": ["x"], "meta": { "a": [1] }, "score": 99, "pin": "1",
            "ownerId": "o", "members": [{ "id": "m" }], "dueAt": "2026-01-02T03:04:05+02:00", "ratio": 0.25,
        });
        let (status, record) = live
            .send(
                "/posts",
                "/posts",
                "POST",
                &[JSON, ADMIN],
                &body.to_string(),
            )
            .await;
        assert_eq!(status, 201, "{record}");
        ids.push(record["id"].as_str().expect("an id").to_owned());
    }
    let bodies = [
        "",
        "{",
        "[]",
        "{}",
        r#"{"bogus":1}"#,
        r#"{"dueAt":null}"#,
        r#"{"dueAt":"x"}"#,
        r#"{"slug":"two","title":"T"}"#,
        r#"{"title":"New"}"#,
        r#"{"id":"7"}"#,
    ];
    let long = format!("q={}", "x".repeat(9000));
    let queries = [
        "",
        "bogus=1",
        "limit=1",
        "limit=0",
        "cursor=zzz",
        "slug=one",
        "slug=one&states=draft",
        "owner=o&states=draft",
        "owner=o&states=draft&states=published",
        "states=draft",
        "owner[null]=true&states=draft,published",
        "sort=zzz",
        "title[contains]=t&sort=title",
        "dueAt[gte]=2026-01-01T00:00:00Z",
        "dueAt[gte]=x",
        "status[in]=draft&live=false&category[null]=true",
        &long,
    ];
    for (template, item) in document["paths"].as_object().expect("paths") {
        for method in item
            .as_object()
            .expect("a path")
            .keys()
            .map(|m| m.to_ascii_uppercase())
        {
            for (turn, id) in ids
                .iter()
                .map(String::as_str)
                .chain(["absent", "one", "7", "%ff"])
                .enumerate()
            {
                let path = template
                    .replace("{id}", id)
                    .replace("{slug}", id)
                    .replace("{owner}", id);
                for query in queries {
                    let uri = if query.is_empty() {
                        path.clone()
                    } else {
                        format!("{path}?{query}")
                    };
                    live.send(
                        template,
                        &uri,
                        &method,
                        &[JSON, ADMIN, ("if-match", "\"1\"")],
                        r#"{"dueAt":null}"#,
                    )
                    .await;
                    live.send(template, &uri, &method, &[ADMIN], "").await;
                }
                for body in bodies {
                    for headers in [
                        &[][..],
                        &[JSON],
                        &[JSON, ("x-actor", "bob")],
                        &[ADMIN],
                        &[JSON, ADMIN],
                        &[JSON, ADMIN, ("if-match", "*")],
                        &[JSON, ADMIN, ("if-match", "\"7\"")],
                        &[JSON, ADMIN, ("if-none-match", "*")],
                    ] {
                        live.send(template, &path, &method, headers, body).await;
                    }
                }
                if turn == 0 {
                    live.send(
                        template,
                        &path,
                        &method,
                        &[JSON, ADMIN],
                        &" ".repeat((1 << 20) + 1),
                    )
                    .await;
                }
            }
        }
    }
    assert!(
        live.faults.is_empty(),
        "{} faults, the first: {:#?}",
        live.faults.len(),
        &live.faults[..live.faults.len().min(5)]
    );
    // The test is only valid if responses of different kinds occur.
    let statuses: BTreeSet<u16> = live.seen.iter().map(|(_, status, _)| *status).collect();
    for status in [
        200, 201, 204, 304, 400, 401, 403, 404, 409, 412, 413, 414, 415, 428,
    ] {
        assert!(
            statuses.contains(&status),
            "no request was answered {status}: {statuses:?}"
        );
    }
    for (operation, status) in [
        ("post_publish", 200),
        ("post_bump", 200),
        ("post_update", 200),
        ("post_bySlug", 200),
        ("post_byOwner_byPath", 200),
    ] {
        assert!(
            live.seen
                .iter()
                .any(|(o, s, _)| o == operation && *s == status),
            "{operation} was never answered {status}"
        );
    }
}
