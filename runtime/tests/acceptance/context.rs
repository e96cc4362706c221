//! Tests context values of plugins in all declarations that may read one, and layers of plugins.

#![allow(missing_docs)] // test entities

use linchpin::axum::extract::Request;
use linchpin::axum::http::request::Parts;
use linchpin::axum::middleware::{Next, from_fn};
use linchpin::axum::response::{IntoResponse, Response};
use linchpin::prelude::*;
use linchpin::{BoxFuture, Code, MiddlewareCx, Plugin, RoutesCx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Tier {
    Free,
    Paid,
}

linchpin::context! {
    /// The language that the caller reads.
    pub locale: String;
    /// The region of the caller.
    pub region: String;
    /// The level of records that the caller may see; the provider reads it from the store.
    pub level: i64;
    pub tier: Tier;
    /// The caller reads records from this instant on.
    pub since: Timestamp;
}

/// Represents another crate: declarations read the value by its path.
mod elsewhere {
    linchpin::context! {
        pub trusted: bool;
    }
}

#[entity(scope(region = ctx(region)), routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary)]
    pub id: String,
    pub region: String,
    #[field(default = ctx(locale))]
    pub locale: String,
    #[field(default = 0, filterable)]
    pub level: i64,
    #[field(default = Tier::Free)]
    pub tier: Tier,
    #[field(default = false)]
    pub trusted: bool,
    pub readers: Vec<String>,
    #[field(default = now)]
    pub at: Timestamp,
}

#[operation(kind = "lookup", returns = "many", fields(locale = ctx(locale)), filter = (level <= ctx(level)))]
pub const MINE: Operation<Notice>;

#[operation(kind = "lookup", returns = "many", fields(tier = ctx(tier)), filter = (at >= ctx(since) || locale.one_of([ctx(locale), "xx"])))]
pub const FRESH: Operation<Notice>;

#[operation(kind = "transition", field = trusted, from = false, to = true, set(tier = ctx(tier), level = ctx(level)))]
pub const TRUST: Operation<Notice>;

#[operation(kind = "array_push", field = readers, value = ctx(locale))]
pub const READ: Operation<Notice>;

#[operation(kind = "batch", action = "delete", filter = (trusted == ctx(elsewhere::trusted) && locale == ctx(locale)), unscoped = "a region is left as a whole")]
pub const CLEAR: Operation<Notice>;

/// An entity whose create route is idempotent.
#[entity(scope(region = ctx(region)), routes(auth = "userAuth", create(idempotent)))]
#[derive(Clone, Debug)]
pub struct Order {
    #[field(primary)]
    pub id: String,
    pub region: String,
}

/// A public entity. Its routes have no authenticated caller, but they have context values.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Greeting {
    #[field(primary)]
    pub id: String,
    #[field(filterable)]
    pub locale: String,
}

#[operation(kind = "lookup", returns = "one", fields(locale = ctx(locale)))]
pub const HELLO: Operation<Greeting>;

#[route(entity = Greeting, method = "GET", path = "which", auth = none)]
async fn which(cx: Cx) -> String {
    format!("{:?} {:?}", cx.context(locale), cx.context(level))
}

#[route(entity = Greeting, method = "POST", path = "count", auth = "userAuth", idempotent)]
async fn count(cx: Cx) -> String {
    format!("{:?}", cx.context(locale))
}

pub static NOTICES: Package = package!(
    name = "notices",
    entities = [
        entity(Notice, [MINE, FRESH, TRUST, READ, CLEAR]),
        entity(Order, []),
        entity(Greeting, [HELLO, which, count])
    ]
);

struct ContextPlugin;

fn header(parts: &Parts, name: &str) -> Option<String> {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

impl Plugin for ContextPlugin {
    fn name(&self) -> &'static str {
        "surroundings"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let greetings = cx.adapters().get::<Greeting>()?;
            cx.provide(locale, |call| {
                match header(call.parts, "x-locale").as_deref() {
                    Some("bad") => Err(Error::new(Code::NotFound, "no such language")),
                    Some("nul") => Ok(Some("a\0b".to_owned())),
                    other => Ok(other.map(str::to_owned)),
                }
            })?;
            cx.provide(region, |call| Ok(header(call.parts, "x-region")))?;
            // This provider reads the value of an earlier provider, and queries the store.
            cx.provide_later(level, move |call| {
                let greetings = greetings.clone();
                Box::pin(async move {
                    let requested =
                        header(call.parts, "x-level").and_then(|text| text.parse().ok());
                    let greeting = match call.cx.context(locale) {
                        Some(code) => {
                            greetings
                                .get(&Cx::system("how much a language may see"), &*code)
                                .await?
                        }
                        None => None,
                    };
                    Ok(requested.or(greeting.map(|_| 5)))
                })
            })?;
            cx.provide(tier, |call| {
                Ok(Some(
                    if call
                        .cx
                        .get_actor()
                        .is_some_and(|a| a.has_any_role(&["paid"]))
                    {
                        Tier::Paid
                    } else {
                        Tier::Free
                    },
                ))
            })?;
            cx.provide(since, |call| Ok(Some(call.cx.now())))?;
            cx.provide(elsewhere::trusted, |_| Ok(Some(true)))?;
            cx.layer(from_fn(outer));
            cx.layer(from_fn(inner));
            Ok(())
        })
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.route("/silence", linchpin::axum::routing::get(|| async {}));
            cx.route("/health/records", linchpin::axum::routing::get(|| async {}));
            cx.nest(
                "/files",
                linchpin::axum::Router::new().fallback(|| async { "a file" }),
            );
            cx.route(
                "/language",
                linchpin::axum::routing::get(|cx: Cx| async move {
                    cx.context(locale).unwrap_or_default()
                }),
            );
            Ok(())
        })
    }
}

async fn outer(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let seen = response
        .headers()
        .get("x-seen")
        .map_or_else(String::new, |v| v.to_str().unwrap().to_owned());
    response
        .headers_mut()
        .insert("x-seen", format!("{seen}outer").parse().unwrap());
    response
}

async fn inner(request: Request, next: Next) -> Response {
    match request
        .headers()
        .get("x-layer")
        .map(linchpin::axum::http::HeaderValue::as_bytes)
    {
        Some(b"refuse") => return Error::new(Code::Forbidden, "not through here").into_response(),
        Some(b"answer") => return "by itself".into_response(),
        Some(b"panic") => panic!("a layer's panic"),
        _ => {}
    }
    let mut response = next.run(request).await;
    response
        .headers_mut()
        .insert("x-seen", "inner ".parse().unwrap());
    response
}

fn with_context_plugin(app: App) -> App {
    app.plugin(ContextPlugin)
}

cases!(&crate::context::NOTICES, crate::context::with_context_plugin =>
    context_values_restrict_reads, context_values_restrict_writes,
    a_missing_context_value_is_refused, an_error_of_a_provider_is_the_response,
    idempotency_keys_depend_on_context_values, public_responses_with_context_values_are_not_cached,
    code_sets_context_values, layers_wrap_every_response, the_document_lists_context_values,
);

/// Calls as a user with the headers `headers_of_caller`.
async fn call(
    s: &Server,
    headers_of_caller: &[(&str, &str)],
    method: &str,
    path: &str,
    body: Json,
) -> Reply {
    let token = s.token("alice", &["paid"]);
    let mut headers = vec![
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    headers.extend_from_slice(headers_of_caller);
    s.raw(
        method,
        path,
        &headers,
        &if body.is_null() {
            String::new()
        } else {
            body.to_string()
        },
    )
    .await
}

const DE: &[(&str, &str)] = &[("x-locale", "de"), ("x-region", "eu"), ("x-level", "3")];
const FR: &[(&str, &str)] = &[("x-locale", "fr"), ("x-region", "eu"), ("x-level", "1")];
const US: &[(&str, &str)] = &[("x-locale", "de"), ("x-region", "us"), ("x-level", "9")];

fn ids(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn context_values_restrict_reads(s: &Server) {
    for (headers_of_caller, id, record_level) in
        [(DE, "a", 1), (DE, "b", 4), (FR, "c", 1), (US, "d", 1)]
    {
        let made = call(
            s,
            headers_of_caller,
            "POST",
            "/notices",
            json!({"id": id, "level": record_level}),
        )
        .await;
        assert_eq!(
            (made.status, &made.json()["locale"], &made.json()["region"]),
            (
                201,
                &json!(headers_of_caller[0].1),
                &json!(headers_of_caller[1].1)
            )
        );
    }
    // A context value in a filter and in `fields`. The scope applies too.
    assert_eq!(
        ids(&call(s, DE, "GET", "/notices/mine", Json::Null).await),
        ["a"]
    );
    assert_eq!(
        ids(&call(s, FR, "GET", "/notices/mine", Json::Null).await),
        ["c"]
    );
    assert_eq!(
        ids(&call(s, US, "GET", "/notices/mine", Json::Null).await),
        ["d"]
    );
    assert_eq!(
        ids(&call(s, DE, "GET", "/notices", Json::Null).await),
        ["a", "b", "c"]
    );
    assert_eq!(
        call(s, US, "GET", "/notices/a", Json::Null).await.code(),
        (404, "not_found")
    );
    // Enums, dates and lists. The caller is paid, the records are free.
    assert_eq!(
        ids(&call(s, DE, "GET", "/notices/fresh", Json::Null).await),
        Vec::<String>::new()
    );
    call(s, DE, "POST", "/notices/b/trust", Json::Null).await;
    assert_eq!(
        ids(&call(s, DE, "GET", "/notices/fresh", Json::Null).await),
        ["b"]
    );
    // A client cannot send a context value.
    assert_eq!(
        call(s, DE, "GET", "/notices/mine?locale=fr", Json::Null)
            .await
            .code(),
        (400, "unknown_parameter")
    );
    call(
        s,
        DE,
        "POST",
        "/notices",
        json!({"id": "x", "locale": "fr"}),
    )
    .await
    .problem("read_only", "locale");
    call(
        s,
        DE,
        "POST",
        "/notices",
        json!({"id": "x", "region": "us"}),
    )
    .await
    .problem("read_only", "region");
    // The cursor contains the scope value, so another region refuses it.
    let first = call(s, DE, "GET", "/notices?limit=1", Json::Null)
        .await
        .json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    let next_page = format!("/notices?limit=1&cursor={first}");
    assert_eq!(
        ids(&call(s, FR, "GET", &next_page, Json::Null).await),
        ["b"]
    );
    assert_eq!(
        call(s, US, "GET", &next_page, Json::Null).await.code(),
        (400, "invalid_cursor")
    );
}

async fn context_values_restrict_writes(s: &Server) {
    for (headers_of_caller, id) in [(DE, "a"), (US, "b"), (FR, "c")] {
        assert_eq!(
            call(s, headers_of_caller, "POST", "/notices", json!({"id": id}))
                .await
                .status,
            201
        );
    }
    let trusted = call(s, DE, "POST", "/notices/a/trust", Json::Null)
        .await
        .json();
    assert_eq!(
        (&trusted["tier"], &trusted["level"], &trusted["trusted"]),
        (&json!("paid"), &json!(3), &json!(true))
    );
    assert_eq!(
        call(s, DE, "POST", "/notices/b/trust", Json::Null)
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        call(s, FR, "POST", "/notices/a/read", Json::Null)
            .await
            .json()["readers"],
        json!(["fr"])
    );
    // The provider looks up the level: it is 5 if the language has a greeting.
    s.post("/greetings", json!({"id": "de", "locale": "de"}))
        .await;
    let trusted_b = call(
        s,
        &[("x-locale", "de"), ("x-region", "us")],
        "POST",
        "/notices/b/trust",
        Json::Null,
    )
    .await;
    assert_eq!(trusted_b.json()["level"], 5);
    // The operation is unscoped: it deletes records of both regions, but of one language.
    let cleared = call(
        s,
        &[("x-locale", "de"), ("x-region", "nowhere")],
        "POST",
        "/notices/clear",
        Json::Null,
    )
    .await;
    assert_eq!((cleared.status, cleared.json()), (200, json!(2)));
}

/// Without the value an anonymous caller gets 401 and others get 403, before any statement runs.
async fn a_missing_context_value_is_refused(s: &Server) {
    let nowhere = &[("x-locale", "de")];
    for (method, path) in [
        ("GET", "/notices"),
        ("GET", "/notices/a"),
        ("POST", "/notices"),
        ("GET", "/notices/mine"),
        ("POST", "/notices/a/trust"),
    ] {
        // The body is invalid JSON, but the missing value is reported first.
        let token = s.token("alice", &[]);
        let reply = s
            .raw(method, path, &[("authorization", &token), nowhere[0]], "{")
            .await;
        assert_eq!(reply.code(), (403, "forbidden"), "{method} {path}");
    }
    let no_level = &[("x-locale", "de"), ("x-region", "eu")];
    assert_eq!(
        call(s, no_level, "GET", "/notices/mine", Json::Null)
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(s, no_level, "GET", "/notices", Json::Null)
            .await
            .status,
        200,
        "a route that does not read the value is served"
    );
    assert_eq!(
        call(
            s,
            &[("x-region", "eu")],
            "POST",
            "/notices",
            json!({"id": "a"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        s.get("/greetings/hello").await.code(),
        (401, "unauthorized")
    );
}

async fn an_error_of_a_provider_is_the_response(s: &Server) {
    assert_eq!(
        call(s, &[("x-locale", "bad")], "GET", "/notices", Json::Null)
            .await
            .code(),
        (404, "not_found")
    );
    call(
        s,
        &[("x-locale", "nul")],
        "GET",
        "/notices/mine",
        Json::Null,
    )
    .await
    .problem("format", "ctx:locale");
    call(
        s,
        &[("x-level", "9007199254740993")],
        "GET",
        "/notices",
        Json::Null,
    )
    .await
    .problem("range", "ctx:level");
    // Authentication runs before the providers, so anonymous callers do not see their errors.
    assert_eq!(
        s.raw("GET", "/notices", &[("x-locale", "bad")], "")
            .await
            .code(),
        (401, "unauthorized")
    );
    // Providers run before plugin routes. They do not run for health checks and unknown paths.
    for path in ["/language", "/silence"] {
        let refused = s.raw("GET", path, &[("x-locale", "bad")], "").await;
        assert_eq!(
            (refused.code(), refused.json()["error"].as_str()),
            ((404, "not_found"), Some("no such language")),
            "{path}"
        );
    }
    // Providers also run for other paths of plugins. An invalid credential is reported before the
    // error of a provider.
    for path in ["/silence", "/files/a", "/health/records"] {
        assert_eq!(
            s.raw(
                "GET",
                path,
                &[("x-locale", "bad"), ("authorization", "Bearer x")],
                ""
            )
            .await
            .status,
            401,
            "{path}"
        );
        assert_eq!(
            s.raw("GET", path, &[("x-locale", "bad")], "").await.status,
            404,
            "{path}"
        );
        // A route without auth answers 200 even with an invalid token.
        assert_eq!(
            s.raw(
                "GET",
                path,
                &[("x-locale", "de"), ("authorization", "Bearer x")],
                ""
            )
            .await
            .status,
            200,
            "{path}"
        );
        assert_eq!(
            s.raw("GET", path, &[("x-locale", "de")], "").await.status,
            200,
            "{path}"
        );
    }
    assert_eq!(
        s.raw("GET", "/nowhere", &[("x-locale", "bad")], "")
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        s.raw("GET", "/health/live", &[("x-locale", "bad")], "")
            .await
            .status,
        200
    );
    assert_eq!(
        s.raw("GET", "/language", &[("x-locale", "de")], "")
            .await
            .body,
        "de"
    );
}

/// The same idempotency key in two regions identifies two different calls. Neither of them gets the
/// response of the other.
async fn idempotency_keys_depend_on_context_values(s: &Server) {
    let body = || json!({"id": "a"});
    let keyed = |region_name| {
        [
            ("x-locale", "de"),
            ("x-region", region_name),
            ("idempotency-key", "once"),
        ]
    };
    let first = call(s, &keyed("eu"), "POST", "/orders", body()).await;
    assert_eq!(
        (first.status, first.json()["region"].clone()),
        (201, json!("eu"))
    );
    let again = call(s, &keyed("eu"), "POST", "/orders", body()).await;
    assert_eq!((again.status, again.json()), (201, first.json()));
    let elsewhere = call(s, &keyed("us"), "POST", "/orders", json!({"id": "b"})).await;
    assert_eq!(
        (elsewhere.status, elsewhere.json()["region"].clone()),
        (201, json!("us"))
    );
    // An order does not depend on the locale, so another locale is still the same call.
    let french = [
        ("x-locale", "fr"),
        ("x-region", "eu"),
        ("idempotency-key", "once"),
    ];
    let again = call(s, &french, "POST", "/orders", body()).await;
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (201, "true".to_owned())
    );
    // A route function may read any context value, so another locale is another request (409).
    let counted = |language| [("x-locale", language), ("idempotency-key", "counted")];
    assert_eq!(
        call(s, &counted("de"), "POST", "/greetings/count", Json::Null)
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &counted("de"), "POST", "/greetings/count", Json::Null)
            .await
            .header("idempotency-replayed"),
        "true"
    );
    assert_eq!(
        call(s, &counted("fr"), "POST", "/greetings/count", Json::Null)
            .await
            .code(),
        (409, "idempotency_conflict")
    );
}

async fn public_responses_with_context_values_are_not_cached(s: &Server) {
    assert_eq!(
        s.post("/greetings", json!({"id": "1", "locale": "de"}))
            .await
            .status,
        201
    );
    let hello = s
        .raw("GET", "/greetings/hello", &[("x-locale", "de")], "")
        .await;
    assert_eq!((hello.status, &hello.json()["id"]), (200, &json!("1")));
    // A shared cache must not return it to a caller with another locale.
    assert_eq!(hello.header("cache-control"), "no-store");
    assert_eq!(s.get("/greetings/1").await.header("cache-control"), "");
    assert_eq!(
        s.raw(
            "GET",
            "/greetings/which",
            &[("x-locale", "de"), ("x-level", "2")],
            ""
        )
        .await
        .body,
        r#"Some("de") Some(2)"#
    );
    assert_eq!(s.get("/greetings/which").await.body, "None None");
}

/// A call from code has no request. The code sets the context values.
async fn code_sets_context_values(s: &Server) {
    let notices = s.running().adapters().get::<Notice>().unwrap();
    let alone = Cx::actor(Actor::user("alice"));
    assert_eq!(
        notices.get(&alone, "a").await.unwrap_err().code(),
        Code::Internal,
        "no provider runs for calls from code"
    );
    let cx = alone
        .with_context(region, "eu")
        .with_context(locale, "de")
        .with_context(level, 2);
    let made = notices
        .create(
            &cx,
            NoticeCreate {
                id: "a".to_owned(),
                level: None,
                tier: None,
                trusted: None,
                readers: None,
            },
        )
        .await
        .unwrap();
    assert_eq!((&*made.region, &*made.locale), ("eu", "de"));
    assert_eq!(
        notices
            .mine(&cx, PageArgs::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert!(
        notices
            .get(&cx.clone().with_context(region, "us"), "a")
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(cx.context(level), Some(2));
    assert_eq!(cx.context(tier), None);
}

async fn layers_wrap_every_response(s: &Server) {
    for path in [
        "/greetings",
        "/nowhere",
        "/language",
        "/health/live",
        "/openapi.json",
    ] {
        assert_eq!(s.get(path).await.header("x-seen"), "inner outer", "{path}");
    }
    let id = ("x-request-id", "an-id-of-my-own");
    let refused = s
        .raw("GET", "/greetings", &[("x-layer", "refuse"), id], "")
        .await;
    assert_eq!(
        (refused.code(), &refused.json()["requestId"]),
        ((403, "forbidden"), &json!("an-id-of-my-own"))
    );
    let answered = s
        .raw("GET", "/greetings", &[("x-layer", "answer"), id], "")
        .await;
    assert_eq!(
        (answered.status, &answered.body[..]),
        (200, &b"by itself"[..])
    );
    assert_eq!(answered.header("x-request-id"), "an-id-of-my-own");
    assert!(
        s.raw("HEAD", "/greetings", &[("x-layer", "answer")], "")
            .await
            .body
            .is_empty()
    );
    let panicked = s
        .raw("GET", "/greetings", &[("x-layer", "panic"), id], "")
        .await;
    assert_eq!(
        (panicked.code(), panicked.header("x-request-id")),
        ((500, "internal"), "an-id-of-my-own".to_owned())
    );
    assert_eq!(s.get("/greetings").await.status, 200);
    // The body and the header have the same request id.
    let own = s.get("/greetings/none").await;
    assert_eq!(own.json()["requestId"], json!(own.header("x-request-id")));
}

async fn the_document_lists_context_values(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let context_of =
        |path: &str, method: &str| document["paths"][path][method]["x-linchpin-context"].clone();
    assert_eq!(
        context_of("/notices/mine", "get"),
        json!(["level", "locale", "region"])
    );
    assert_eq!(context_of("/notices", "post"), json!(["locale", "region"]));
    assert_eq!(
        context_of("/notices/clear", "post"),
        json!(["locale", "trusted"])
    );
    assert_eq!(context_of("/greetings", "get"), Json::Null);
    let answers = document["paths"]["/greetings/hello"]["get"]["responses"]
        .as_object()
        .unwrap();
    assert!(
        answers.contains_key("401") && answers.contains_key("403"),
        "{answers:?}"
    );
}
