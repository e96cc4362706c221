//! Described routes of plugins: policy, input, responses and the API document work as for every
//! other route.

#![allow(missing_docs)] // a fixture

use linchpin::entity::{FieldDesc, Kind};
use linchpin::http::{
    AnswerDesc, Nothing, Partial, PluginCall, PluginRoute, RawBody, Reply as Answer, Route,
    RouteInput,
};
use linchpin::{Code, Embedded, Plugin};
use serde_json::json;

use crate::fixture::BLOG;
use crate::server::Server;

#[derive(Embedded)]
pub struct Greet {
    #[field(length = 2..=20)]
    pub name: String,
    #[field(length = ..=5)]
    pub title: Option<String>,
    #[field(default = 1, range = 1..=3)]
    pub times: i64,
}

#[derive(Embedded)]
pub struct Greeting {
    pub text: String,
    pub note: Option<String>,
}

const BUSY: Code = Code::Other(409, "busy");

/// The options of every route of the plugin, except [`HOURS`].
const fn shared<I: RouteInput>(route: Route<I>) -> Route<I> {
    route
        .of("greeter")
        .headers(&[
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ])
        .max_body(512)
}

static GREET: Route<Greet> = shared(Route::post("greet", "greet"))
    .doc("Greets somebody.")
    .public()
    .answers(&[AnswerDesc::sparse::<Greeting>(200, "The greeting.")])
    .errors(&[BUSY]);
static CHANGE: Route<Partial<Greet>> = shared(Route::patch("change", "greet"))
    .doc("Changes the greeting.")
    .answers(&[AnswerDesc::of::<Greeting>(200, "As it is now.")]);
static AGAIN: Route<Nothing> = shared(Route::post("again", "greet/{who}/again"))
    .doc("Greets again.")
    .public()
    .query(&[FieldDesc::new(
        "often",
        "often",
        "often",
        Kind::Integer,
        true,
    )])
    .answers(&[AnswerDesc::empty(204, "Done.")]);

static FORM: Route<Nothing> = shared(Route::post("form", "form"))
    .doc("Greets whom a form names.")
    .public()
    .form(&[
        FieldDesc::new("who", "who", "who", Kind::String, false),
        FieldDesc::new("often", "often", "often", Kind::Integer, true),
    ])
    .lenient()
    .answers(&[AnswerDesc::of::<Greeting>(200, "The greeting.")]);

static RAW: Route<RawBody> = shared(Route::post("raw", "raw/{want}"))
    .doc("Returns the body in hexadecimal digits, or does not read it.")
    .public()
    .answers(&[AnswerDesc::of::<Greeting>(200, "The bytes.")]);

static HOURS: Route<Nothing> = Route::get("hours", "hours")
    .of("greeter")
    .headers(&[("cache-control", "max-age=300")])
    .doc("When it greets.")
    .public()
    .answers(&[AnswerDesc::of::<Greeting>(200, "Always.")]);

struct Greeter;

impl Plugin for Greeter {
    fn name(&self) -> &'static str {
        "greeter"
    }

    fn routes(&self) -> Vec<PluginRoute> {
        vec![
            GREET.bind("/hello", |call: PluginCall, input: Greet| async move {
                if input.name == "nobody" {
                    let refused = Answer::refused(linchpin::Error::new(BUSY, "Busy"));
                    return Ok(refused.header("x-mood".parse().unwrap(), "bad".parse().unwrap()));
                }
                let who = call.cx.get_actor().and_then(|a| a.id.clone());
                Answer::sparse(
                    200,
                    &Greeting {
                        text: format!("{} {}", input.name, input.times),
                        note: who.or(input.title),
                    },
                )
            }),
            CHANGE.bind("/hello", |_, mut input: Partial<Greet>| async move {
                let title: Option<Option<String>> = input.take("title")?;
                let text = match title {
                    None => "kept".to_owned(),
                    Some(None) => "removed".to_owned(),
                    Some(Some(title)) => title,
                };
                Answer::json(200, &Greeting { text, note: None })
            }),
            AGAIN.bind("/hello", |call: PluginCall, _| async move {
                assert_eq!((call.param(0), call.query::<i64>(0)?), ("a/b", Some(7)));
                Answer::empty(204)
            }),
            HOURS.bind("/hello", |_, _| async {
                Answer::json(
                    200,
                    &Greeting {
                        text: "always".to_owned(),
                        note: None,
                    },
                )
            }),
            RAW.bind("/hello", |call: PluginCall, body: RawBody| async move {
                if call.param(0) == "unread" {
                    return Answer::empty(204);
                }
                let text = format!("{:x?}", &*body.read().await?);
                Answer::json(200, &Greeting { text, note: None })
            }),
            FORM.bind("/hello", |call: PluginCall, _| async move {
                let text = format!(
                    "{} {:?}",
                    call.query::<String>(0)?.unwrap_or_default(),
                    call.query::<i64>(1)?
                );
                Answer::json(200, &Greeting { text, note: None })
            }),
        ]
    }
}

async fn server() -> Server {
    Server::memory_with(&BLOG, |app| app.plugin(Greeter)).await
}

#[tokio::test]
async fn plugin_input_is_validated_like_entity_input() {
    let server = server().await;
    let good = server.post("/hello/greet", json!({"name": "Ada"})).await;
    assert_eq!((good.status, good.json()), (200, json!({"text": "Ada 1"})));
    let bad = server
        .post(
            "/hello/greet",
            json!({"name": "A", "title": "too long", "times": "x", "role": "admin"}),
        )
        .await;
    for (code, path) in [
        ("min_length", "name"),
        ("max_length", "title"),
        ("type", "times"),
        ("unknown_field", "role"),
    ] {
        bad.problem(code, path);
    }
    server
        .post("/hello/greet", json!({}))
        .await
        .problem("required", "name");
    server
        .post("/hello/greet", json!({"name": null}))
        .await
        .problem("null_not_allowed", "name");
    server
        .post("/hello/greet", json!([]))
        .await
        .problem("type", "");
    let typed = |kind: &'static str, body: &'static str| {
        server.raw(
            "POST",
            "/hello/greet",
            if kind.is_empty() {
                &[]
            } else {
                Box::leak(Box::new([("content-type", kind)])) as &[_]
            },
            body,
        )
    };
    assert_eq!(
        typed("text/plain", "{}").await.code(),
        (415, "unsupported_media_type")
    );
    assert_eq!(
        typed("", "{}").await.code(),
        (415, "unsupported_media_type")
    );
    assert_eq!(
        typed("application/json", "{bad").await.code(),
        (400, "malformed_json")
    );
    let long = Box::leak(format!("{{\"name\":\"{}\"}}", "x".repeat(600)).into_boxed_str());
    assert_eq!(
        typed("application/json", long).await.code(),
        (413, "body_too_large")
    );
    assert_eq!(
        server
            .post("/hello/greet?x=1", json!({"name": "Ada"}))
            .await
            .code(),
        (400, "unknown_parameter")
    );
}

#[tokio::test]
async fn policy_comes_before_the_body() {
    let server = server().await;
    let anonymous = server
        .raw(
            "PATCH",
            "/hello/greet",
            &[("content-type", "application/json")],
            "{bad",
        )
        .await;
    assert_eq!(anonymous.code(), (401, "unauthorized"));
    assert_eq!(
        (
            anonymous.header("cache-control"),
            anonymous.header("referrer-policy")
        ),
        ("no-store".into(), "no-referrer".into())
    );
    let token = server.token("ada", &[]);
    let patch = |body: &'static str| {
        let headers = Box::leak(Box::new([
            ("content-type", "application/json"),
            (
                "authorization",
                Box::leak(token.clone().into_boxed_str()) as &str,
            ),
        ]));
        server.raw("PATCH", "/hello/greet", &*headers, body)
    };
    for (body, text) in [
        ("{}", "kept"),
        (r#"{"title":null}"#, "removed"),
        (r#"{"title":"Dr"}"#, "Dr"),
    ] {
        let reply = patch(body).await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({"text": text, "note": null})),
            "{body}"
        );
    }
    patch(r#"{"name":null,"title":"too long"}"#)
        .await
        .problem("null_not_allowed", "name");
}

#[tokio::test]
async fn paths_queries_and_responses_follow_the_description() {
    let server = server().await;
    // A route without a body ignores the body that was sent.
    let done = server
        .raw("POST", "/hello/greet/a%2Fb/again?often=7", &[], "whatever")
        .await;
    assert_eq!(
        (done.status, done.header("cache-control")),
        (204, "no-store".into())
    );
    server
        .raw("POST", "/hello/greet/a/again?often=x", &[], "")
        .await
        .problem("type", "query:often");
    let refused = server.post("/hello/greet", json!({"name": "nobody"})).await;
    assert_eq!(
        (refused.code(), refused.header("x-mood")),
        ((409, "busy"), "bad".into())
    );
    assert_eq!(refused.json()["requestId"], refused.header("x-request-id"));
    // The response to an unknown method of the path has the same headers.
    for (method, status, allow) in [
        ("GET", 405, "POST, PATCH, OPTIONS"),
        ("HEAD", 405, "POST, PATCH, OPTIONS"),
        ("OPTIONS", 204, "POST, PATCH, OPTIONS"),
    ] {
        let reply = server.raw(method, "/hello/greet", &[], "").await;
        assert_eq!(
            (reply.status, reply.header("allow").as_str()),
            (status, allow),
            "{method}"
        );
        assert_eq!(
            (
                reply.header("cache-control"),
                reply.header("referrer-policy")
            ),
            ("no-store".into(), "no-referrer".into()),
            "{method}"
        );
    }
    // The caching header of a route is not part of its 405.
    assert_eq!(
        server.get("/hello/hours").await.header("cache-control"),
        "max-age=300"
    );
    let refused = server.post("/hello/hours", json!({})).await;
    assert_eq!(
        (refused.code(), refused.header("cache-control")),
        ((405, "method_not_allowed"), "no-store".into())
    );
}

#[tokio::test]
async fn a_form_is_read_as_parameters() {
    let server = server().await;
    let send = async |kind: &'static str, body: &'static str| {
        server
            .raw(
                "POST",
                "/hello/form",
                if kind.is_empty() {
                    &[]
                } else {
                    Box::leak(Box::new([("content-type", kind)])) as &[_]
                },
                body,
            )
            .await
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    let text = async |body: &'static str| {
        send("application/x-www-form-urlencoded; charset=utf-8", body)
            .await
            .json()["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        text("who=a+b%26c&often=7&more=x&more=y").await,
        "a b&c Some(7)"
    );
    assert_eq!(text("who=%F0%9F%90%8B").await, "\u{1f40b} None");
    send(FORM, "").await.problem("required", "who");
    send("", "").await.problem("required", "who");
    send(FORM, "who=a&who=b").await.problem("duplicate", "who");
    send(FORM, "who=%ff").await.problem("format", "who");
    send(FORM, "who=%2").await.problem("format", "who");
    send(FORM, "who=a&often=x").await.problem("type", "often");
    for kind in ["", "application/json", "text/plain", "multipart/form-data"] {
        assert_eq!(
            send(kind, "who=a").await.code(),
            (415, "unsupported_media_type"),
            "{kind}"
        );
    }
    let long = Box::leak(format!("who={}", "x".repeat(600)).into_boxed_str());
    assert_eq!(send(FORM, long).await.code(), (413, "body_too_large"));
    let document = server.get("/openapi.json").await.json();
    let form = &document["paths"]["/hello/form"]["post"];
    let schema = &form["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"];
    assert_eq!(
        (&schema["required"], &schema["properties"]["often"]["type"]),
        (&json!(["who"]), &json!("integer")),
        "{form}"
    );
    assert!(
        form["parameters"].is_null() && form["requestBody"]["required"] == true,
        "{form}"
    );
}

#[tokio::test]
async fn a_raw_body_is_the_bytes_that_were_sent() {
    let server = server().await;
    for (kind, body) in [
        ("application/json", "{bad"),
        ("application/octet-stream", "\0\u{1f40b}"),
        ("", ""),
    ] {
        let headers = [("content-type", kind)];
        let headers = if kind.is_empty() { &[][..] } else { &headers };
        let reply = server.raw("POST", "/hello/raw/read", headers, body).await;
        let text = format!("{:x?}", body.as_bytes());
        assert_eq!(reply.json()["text"], text, "{body}");
    }
    let long = "x".repeat(600);
    let refused = server.raw("POST", "/hello/raw/read", &[], &long).await;
    assert_eq!(refused.code(), (413, "body_too_large"));
    // A body of any length that the function does not read is discarded.
    let unread = server.raw("POST", "/hello/raw/unread", &[], &long).await;
    assert_eq!(unread.status, 204);
    let document = server.get("/openapi.json").await.json();
    let raw = &document["paths"]["/hello/raw/{want}"]["post"];
    assert_eq!(raw["requestBody"]["content"], json!({ "*/*": {} }));
}

#[tokio::test]
async fn the_document_describes_input_and_responses() {
    let server = server().await;
    let document = server.get("/openapi.json").await.json();
    let greet = &document["paths"]["/hello/greet"]["post"];
    assert_eq!(
        (&greet["operationId"], &greet["tags"], &greet["security"]),
        (&json!("greeter_greet"), &json!(["greeter"]), &json!([]))
    );
    assert_eq!(
        document["components"]["schemas"]["GreeterGreetInput"]["required"],
        json!(["name"])
    );
    let answer = &greet["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(
        (&answer["required"], &answer["properties"]["note"]["type"]),
        (&json!(["text"]), &json!("string"))
    );
    assert!(
        greet["responses"]["409"].is_object() && greet["responses"]["415"].is_object(),
        "{greet}"
    );
    assert_eq!(
        document["paths"]["/hello/greet"]["patch"]["security"],
        json!([{"userAuth": []}])
    );
    let again = &document["paths"]["/hello/greet/{who}/again"]["post"];
    assert!(
        again["requestBody"].is_null() && again["parameters"][1]["name"] == "often",
        "{again}"
    );
    assert!(
        document["tags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tag| tag["name"] == "greeter")
    );
}
