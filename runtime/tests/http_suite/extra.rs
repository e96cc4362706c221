//! Routes of the app: `#[route]` functions of an entity, and routes of plugins.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use linchpin::entity::SourceLine;
use linchpin::http::{Contents, ExtraHandler, ExtraRouteSpec, PolicyDesc, RequestId};
use linchpin::operation::{Method, RouteSpec, Seg};
use linchpin::{Adapters, Code, Cx, Error};

use crate::fixture::{App, blog, blog_with};

const AT: SourceLine = SourceLine {
    file: "tests/extra.rs",
    line: 1,
};

/// `GET /posts/export`: a static segment next to `/posts/{id}`.
pub const EXPORT: ExtraRouteSpec = ExtraRouteSpec {
    name: "export",
    route: RouteSpec {
        method: Method::Get,
        segments: &[Seg::Lit("export")],
    },
    policy: PolicyDesc::INHERIT,
    handler: &EXPORTED,
    contents: &Contents::NONE,
    doc: "",
    at: AT,
};

const EXPORTED: ExtraHandler = |request| {
    Box::pin(async move {
        let (mut parts, _) = request.into_parts();
        let cx = Cx::from_request_parts(&mut parts, &()).await.unwrap();
        let adapters = Adapters::from_request_parts(&mut parts, &()).await.unwrap();
        let id = parts.extensions.get::<RequestId>().unwrap();
        assert_eq!(cx.request_id(), id.as_str());
        let user = cx.get_actor_id().unwrap_or_default().to_owned();
        format!("{user} {}", adapters.table("blog_posts").is_some()).into_response()
    })
};

/// `POST /posts/{slug}/fail/{why}`, for admins, with at most 8 bytes.
pub const FAIL: ExtraRouteSpec = ExtraRouteSpec {
    name: "fail",
    route: RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("slug"), Seg::Lit("fail"), Seg::Param("why")],
    },
    policy: PolicyDesc {
        roles: Some(&["admin"]),
        max_body: Some(8),
        ..PolicyDesc::INHERIT
    },
    handler: &FAILED,
    contents: &Contents::NONE,
    doc: "",
    at: AT,
};

const FAILED: ExtraHandler = |request| Box::pin(fail(request));

async fn fail(request: Request<Body>) -> Response {
    let (mut parts, body) = request.into_parts();
    let Path((slug, why)) = Path::<(String, String)>::from_request_parts(&mut parts, &())
        .await
        .unwrap();
    match why.as_str() {
        "panic" => panic!("no"),
        "internal" => Error::internal("the secret cause").into_response(),
        "body" => match axum::body::to_bytes(body, usize::MAX).await {
            Ok(bytes) => bytes.into_response(),
            Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        },
        _ => Error::new(Code::Other(409, "odd"), slug).into_response(),
    }
}

const ADMIN: [(&str, &str); 3] = [
    ("x-user", "u"),
    ("x-roles", "admin"),
    ("x-request-id", "inbound-1"),
];

#[tokio::test]
async fn a_route_function_runs_under_the_policy_of_its_entity() {
    let app = blog().await;
    let answer = app.send("GET", "/posts/export", &ADMIN, "").await;
    assert_eq!(
        (answer.status.as_u16(), answer.body.as_slice()),
        (200, b"u true".as_slice())
    );
    assert_eq!(
        app.send("HEAD", "/posts/export", &[], "").await.body.len(),
        0
    );
    assert_eq!(
        app.send("POST", "/posts/a/fail/x", &[("x-user", "u")], "")
            .await
            .summary(),
        "403 forbidden"
    );
}

#[tokio::test]
async fn errors_of_a_route_function_get_the_request_id() {
    let app = blog().await;
    let send = |why: &'static str, body: &'static str| {
        let app = &app;
        async move {
            app.send("POST", &format!("/posts/a%2Fb/fail/{why}"), &ADMIN, body)
                .await
        }
    };
    let answer = send("x", "").await;
    assert_eq!(
        (answer.summary().as_str(), &answer.json()["error"]),
        ("409 odd", &"a/b".into())
    );
    assert_eq!(answer.json()["requestId"], "inbound-1");
    assert_eq!(send("panic", "").await.summary(), "500 internal");
    let internal = send("internal", "").await;
    assert_eq!(
        (internal.summary().as_str(), &internal.json()["error"]),
        ("500 internal", &"Internal error".into())
    );
    assert_eq!(send("body", "12345678").await.status, 200);
    assert_eq!(
        send("body", "123456789").await.summary(),
        "413 body_too_large"
    );
    let stream = futures_util::stream::iter(
        [b"12345".as_slice(), b"67890"].map(|c| Ok::<_, std::io::Error>(Bytes::from(c))),
    );
    let streamed = app
        .send(
            "POST",
            "/posts/a/fail/body",
            &ADMIN,
            Body::from_stream(stream),
        )
        .await;
    assert_eq!(streamed.status, 413);
}

async fn with_plugin() -> App {
    blog_with(|_, state| {
        let hello = |cx: Cx| async move { cx.get_actor_id().unwrap_or_default().to_owned() };
        state.extra = axum::Router::new()
            .route("/plugin/hello", axum::routing::get(hello))
            .route(
                "/plugin/panic",
                axum::routing::post(|| async { panic!("no") as () }),
            )
            .route("/posts/feed", axum::routing::get(|| async { "feed" }))
            .route(
                "/posts/{id}",
                axum::routing::put(|Path(id): Path<String>| async move { format!("put {id}") }),
            );
        state.extra_paths = vec!["/posts/feed".to_owned()];
    })
    .await
}

#[tokio::test]
async fn plugin_routes_are_served_with_entity_routes() {
    let app = with_plugin().await;
    let body = |answer: crate::fixture::Answer| String::from_utf8(answer.body).unwrap();
    assert_eq!(
        body(
            app.send("GET", "/plugin/hello", &[("x-user", "u")], "")
                .await
        ),
        "u"
    );
    assert_eq!(body(app.get("/plugin/hello").await), "");
    assert_eq!(
        app.send("GET", "/plugin/hello", &[("x-user", "bad")], "")
            .await
            .summary(),
        "401 token_expired"
    );
    assert_eq!(
        body(app.get("/posts/feed").await),
        "feed",
        "static wins over a parameter"
    );
    assert_eq!(body(app.send("PUT", "/posts/x", &[], "").await), "put x");
    assert_eq!(
        app.send("POST", "/plugin/panic", &[], "").await.summary(),
        "500 internal"
    );
    assert_eq!(app.get("/plugin/none").await.summary(), "404 not_found");
}

#[tokio::test]
async fn allow_headers_list_methods_of_plugins_and_entities() {
    let app = with_plugin().await;
    for (path, allow) in [
        ("/plugin/hello", "GET, HEAD, OPTIONS"),
        ("/plugin/panic", "POST, OPTIONS"),
        ("/posts/x", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/posts", "GET, HEAD, POST, OPTIONS"),
    ] {
        let answer = app.send("TRACE", path, &[], "").await;
        assert_eq!(
            (answer.summary().as_str(), answer.header("allow")),
            ("405 method_not_allowed", allow),
            "{path}"
        );
        let options = app.send("OPTIONS", path, &[], "").await;
        assert_eq!(
            (options.status.as_u16(), options.header("allow")),
            (204, allow),
            "{path}"
        );
    }
}
