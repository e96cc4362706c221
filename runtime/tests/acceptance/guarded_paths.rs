//! Guards by path, and middleware of a package: checks that run before a route, regardless of its
//! own policy.

#![allow(missing_docs)] // test entities

use axum::http::HeaderValue;
use axum::response::Response;
use linchpin::http::{GuardArg, GuardInput, NamedCheck};
use linchpin::prelude::*;
use linchpin::{BoxFuture, Plugin, PostCx, Result, RoutesCx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, SECRET, Server};
use crate::tenancy::{call, made};

/// A report; its own policy makes its list public.
#[entity(
    unique(slug),
    sort = asc(slug),
    has_many(lines: Line, key = report_id),
    routes(auth = none, delete(auth = "userAuth", roles = ["auditor"]), update(auth = "bearer"))
)]
#[derive(Clone, Debug)]
pub struct Report {
    #[field(primary)]
    pub id: String,
    pub slug: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views, by = 1)]
pub const VIEW: Operation<Report>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Report>;

#[route(entity = Report, method = "GET", path = "feed")]
async fn feed() -> &'static str {
    "feed"
}

/// A line of a report; its own routes have other paths.
#[entity(belongs_to(report: Report, key = report_id), routes(auth = none, list(middleware = [counted])))]
#[derive(Clone, Debug)]
pub struct Line {
    #[field(primary)]
    pub id: String,
    #[field(filterable)]
    pub report_id: String,
}

/// Adds the header `x-stamp` to responses, and refuses calls with the header `x-refuse-package`.
async fn stamped(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    if call.parts.headers.contains_key("x-refuse-package") {
        return Err(Error::forbidden());
    }
    let mut response = next.await?;
    response
        .headers_mut()
        .append("x-stamp", HeaderValue::from_static("package"));
    Ok(response)
}

/// Runs for the list of lines, and for routes that include lines.
async fn counted(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
    match call
        .parts
        .headers
        .get("x-wish")
        .and_then(|v| v.to_str().ok())
    {
        Some("refuse") => Err(Error::new(
            linchpin::Code::Other(403, "not_today"),
            "Not today",
        )),
        Some("answer") => Ok(Response::new("answered".into())),
        _ => {
            let mut response = next.await?;
            response
                .headers_mut()
                .append("x-stamp", HeaderValue::from_static("lines"));
            Ok(response)
        }
    }
}

static HOUSE: Package = package!(
    name = "house",
    mount = "/reports",
    entities = [entity(Report, [VIEW, BY_SLUG, feed]), entity(Line, [])],
    middleware = [stamped],
);

cases!(&crate::guarded_paths::HOUSE, crate::guarded_paths::with_guards =>
    guards_by_path_protect_every_route, percent_encoded_paths_are_guarded, plugins_are_guarded_too,
    guards_by_path_take_arguments, includes_are_guarded, a_package_has_middleware,
    the_document_lists_guards_by_path, path_patterns_without_routes_are_start_up_errors,
);

fn with_guards(app: App) -> App {
    app.plugin(Pages)
        .guard("/reports/{*rest}", require_role(["admin", "auditor"]))
        .guard("/inside/{*rest}", require_role(["admin"]))
        .guard(
            "/inside/vault",
            RouteGuard::with("require_step_up", GuardArg::Int(300)),
        )
        .guard("/reports/lines/{*rest}", RouteGuard::named("require_mfa"))
}

/// A plugin with its own routes and a fallback.
struct Pages;

impl Plugin for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
        use axum::routing::{any, get};
        Box::pin(async {
            cx.route("/inside/page", get(async || "page"));
            cx.route("/inside/vault", any(async || "vault"));
            cx.nest(
                "/site",
                axum::Router::new().route(
                    "/{*rest}",
                    get(async |uri: axum::http::Uri| uri.path().to_owned()),
                ),
            );
            cx.merge(axum::Router::new().route("/{tenant}/page", get(async || "anybody's")));
            Ok(())
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let has = |call: &GuardInput<'_>, role: &str| call.actor.has_any_role(&[role]);
            cx.registrar().named(
                "bearer",
                NamedCheck::actor(|actor| {
                    if actor.has_any_role(&["service"]) {
                        Ok(())
                    } else {
                        Err(Error::forbidden())
                    }
                }),
            )?;
            cx.registrar().named(
                "require_mfa",
                NamedCheck::guard(move |call| {
                    if has(call, "mfa") {
                        Ok(())
                    } else {
                        Err(Error::forbidden())
                    }
                }),
            )?;
            let stepped = |call: &GuardInput<'_>| {
                call.argument == Some(GuardArg::Int(300)) && call.actor.has_any_role(&["stepped"])
            };
            let check = move |call: &GuardInput<'_>| {
                if stepped(call) {
                    Ok(())
                } else {
                    Err(Error::forbidden())
                }
            };
            cx.registrar()
                .named("require_step_up", NamedCheck::guard(check))
        })
    }
}

async fn call_as(
    s: &Server,
    roles: Option<&[&str]>,
    method: &str,
    path: &str,
    body: &str,
) -> Reply {
    let token = roles.map(|roles| s.token("someone", roles));
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(token.as_deref().map(|token| ("authorization", token)));
    s.raw(method, path, &headers, body).await
}

async fn guards_by_path_protect_every_route(s: &Server) {
    let admin = s.token("root", &["admin"]);
    for id in ["a", "b"] {
        made(s, &admin, "/reports/reports", json!({"id": id, "slug": id})).await;
    }
    for (method, path, body, expected) in [
        ("GET", "/reports/reports", "", 200),
        (
            "POST",
            "/reports/reports",
            r#"{"id": "c", "slug": "c"}"#,
            201,
        ),
        ("GET", "/reports/reports/a", "", 200),
        ("HEAD", "/reports/reports/a", "", 200),
        ("POST", "/reports/reports/a/view", "{}", 200),
        ("GET", "/reports/reports/by-slug/a", "", 200),
        ("GET", "/reports/reports/by-slug?slug=a", "", 200),
        ("GET", "/reports/reports/feed", "", 200),
        // Refused before the body is read, whether or not the record exists.
        ("POST", "/reports/reports", "{", 400),
        ("GET", "/reports/reports/none?x=1", "", 400),
    ] {
        assert_eq!(
            call_as(s, None, method, path, body).await.status,
            401,
            "{method} {path}"
        );
        assert_eq!(
            call_as(s, Some(&["user"]), method, path, body).await.status,
            403,
            "{method} {path}"
        );
        assert_eq!(
            call_as(s, Some(&["admin"]), method, path, body)
                .await
                .status,
            expected,
            "{method} {path}"
        );
    }
    let refused = call_as(s, None, "GET", "/reports/reports", "").await;
    assert_eq!(
        (refused.code(), refused.header("www-authenticate").as_str()),
        ((401, "unauthorized"), "Bearer")
    );
    // The policy of the route applies after the guard.
    assert_eq!(
        call_as(s, Some(&["admin"]), "DELETE", "/reports/reports/b", "")
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(s, Some(&["auditor"]), "DELETE", "/reports/reports/b", "")
            .await
            .status,
        204
    );
    assert_eq!(
        call_as(
            s,
            Some(&["admin"]),
            "PATCH",
            "/reports/reports/a",
            r#"{"slug": "x"}"#
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(
            s,
            Some(&["service"]),
            "PATCH",
            "/reports/reports/a",
            r#"{"slug": "x"}"#
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call_as(
            s,
            Some(&["service", "admin"]),
            "PATCH",
            "/reports/reports/a",
            r#"{"slug": "x"}"#
        )
        .await
        .status,
        200
    );
    // Its responses must not be cached, although its own policy is public.
    assert_eq!(
        call_as(s, Some(&["admin"]), "GET", "/reports/reports/a", "")
            .await
            .header("cache-control"),
        "no-store"
    );
    assert_eq!(s.get("/health/ready").await.status, 200);
}

async fn percent_encoded_paths_are_guarded(s: &Server) {
    made(
        s,
        &s.token("root", &["admin"]),
        "/reports/reports",
        json!({"id": "a", "slug": "a-b"}),
    )
    .await;
    for path in [
        "/%72eports/reports/a",
        "/reports/%72eports/a",
        "/repo%72ts/reports/by%2Dslug/a%2Db",
        "/reports/reports/by-slug/a%2db",
    ] {
        assert_eq!(
            call_as(s, None, "GET", path, "").await.status,
            401,
            "{path}"
        );
        let reply = call_as(s, Some(&["admin"]), "GET", path, "").await;
        assert_eq!(
            (reply.status, reply.json()["id"].as_str()),
            (200, Some("a")),
            "{path}"
        );
    }
    // An encoded slash does not split a segment.
    assert_eq!(
        call_as(s, Some(&["admin"]), "GET", "/reports%2Freports/a", "")
            .await
            .status,
        404
    );
    for path in [
        "/inside%2Fpage",
        "/%69nside/page",
        "/inside/%70age",
        "/site/..%2Finside%2Fpage",
        "/site/%2e%2e/inside/page",
    ] {
        assert_eq!(
            call_as(s, None, "GET", path, "").await.status,
            401,
            "{path}"
        );
    }
}

async fn plugins_are_guarded_too(s: &Server) {
    for path in ["/inside/page", "/inside/nothing"] {
        assert_eq!(
            call_as(s, None, "GET", path, "").await.code(),
            (401, "unauthorized"),
            "{path}"
        );
        assert_eq!(
            call_as(s, Some(&["user"]), "GET", path, "").await.code(),
            (403, "forbidden"),
            "{path}"
        );
    }
    let page = call_as(s, Some(&["admin"]), "GET", "/inside/page", "").await;
    assert_eq!(
        (
            page.status,
            &page.body[..],
            page.header("cache-control").as_str()
        ),
        (200, &b"page"[..], "no-store")
    );
    assert_eq!(
        call_as(s, Some(&["admin"]), "GET", "/inside/nothing", "")
            .await
            .status,
        404
    );
    // A merged route with a parameter is guarded if the requested path matches a guard.
    assert_eq!(
        call_as(s, None, "GET", "/reports/page", "").await.status,
        401
    );
    assert_eq!(
        &call_as(s, None, "GET", "/shop/page", "").await.body[..],
        b"anybody's"
    );
    assert_eq!(
        call_as(s, None, "GET", "/site/x/y", "")
            .await
            .header("cache-control"),
        ""
    );
    // A CORS preflight does not reach a handler that accepts every method.
    let preflight_reply = s
        .raw(
            "OPTIONS",
            "/inside/vault",
            &[
                ("origin", "https://a.example"),
                ("access-control-request-method", "PUT"),
            ],
            "",
        )
        .await;
    assert_eq!(
        (preflight_reply.status, preflight_reply.body.len()),
        (204, 0)
    );
    assert!(
        preflight_reply.header("allow").contains("PUT"),
        "{preflight_reply:?}"
    );
    // An invalid credential has the same result as a missing one.
    assert_eq!(
        s.raw("GET", "/inside/page", &[("authorization", "Bearer x")], "")
            .await
            .code(),
        (401, "unauthorized")
    );
}

async fn guards_by_path_take_arguments(s: &Server) {
    assert_eq!(
        call_as(s, Some(&["admin"]), "GET", "/inside/vault", "")
            .await
            .status,
        403
    );
    assert_eq!(
        call_as(s, Some(&["stepped"]), "GET", "/inside/vault", "")
            .await
            .status,
        403,
        "in the order in which they were added"
    );
    assert_eq!(
        &call_as(s, Some(&["admin", "stepped"]), "GET", "/inside/vault", "")
            .await
            .body[..],
        b"vault"
    );
}

async fn includes_are_guarded(s: &Server) {
    made(
        s,
        &s.token("root", &["admin"]),
        "/reports/reports",
        json!({"id": "a", "slug": "a"}),
    )
    .await;
    made(
        s,
        &s.token("root", &["admin", "mfa"]),
        "/reports/lines",
        json!({"id": "l", "reportId": "a"}),
    )
    .await;
    let path = "/reports/reports/a?include=lines";
    assert_eq!(
        call_as(s, Some(&["admin"]), "GET", path, "").await.code(),
        (403, "forbidden")
    );
    let reply = call_as(s, Some(&["admin", "mfa"]), "GET", path, "").await;
    assert_eq!(reply.json()["lines"]["items"][0]["id"], "l");
    let stamps: Vec<_> = reply.headers.get_all("x-stamp").iter().collect();
    assert_eq!(
        stamps,
        ["package"],
        "the middleware of the package runs once, and that of the list changes no response"
    );
    // The middleware of the list of lines also runs for routes that include lines.
    let token = s.token("root", &["admin", "mfa"]);
    let wish = async |wish: &'static str| {
        s.raw(
            "GET",
            path,
            &[("authorization", &token), ("x-wish", wish)],
            "",
        )
        .await
    };
    assert_eq!(wish("refuse").await.code(), (403, "not_today"));
    assert_eq!(wish("answer").await.code(), (403, "forbidden"));
    assert_eq!(wish("other").await.status, 200);
    assert_eq!(
        s.raw(
            "GET",
            "/reports/reports/a",
            &[("authorization", &token), ("x-wish", "refuse")],
            ""
        )
        .await
        .status,
        200
    );
}

async fn a_package_has_middleware(s: &Server) {
    let token = s.token("root", &["admin", "mfa"]);
    let stamps = async |path: &str| -> Vec<String> {
        let reply = call(s, &token, "GET", path, Json::Null).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
            .headers
            .get_all("x-stamp")
            .iter()
            .map(|v| v.to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stamps("/reports/reports").await, ["package"]);
    assert_eq!(stamps("/reports/reports/feed").await, ["package"]);
    assert_eq!(stamps("/reports/reports/by-slug/none").await, ["package"]);
    assert_eq!(
        stamps("/reports/lines").await,
        ["lines", "package"],
        "the middleware of the package is outside of the route's middleware"
    );
    let refused = s
        .raw(
            "GET",
            "/reports/reports",
            &[("authorization", &token), ("x-refuse-package", "1")],
            "",
        )
        .await;
    assert_eq!(refused.code(), (403, "forbidden"));
    assert_eq!(
        s.raw("GET", "/reports/reports", &[("x-refuse-package", "1")], "")
            .await
            .status,
        401,
        "the middleware runs after the guards"
    );
}

async fn the_document_lists_guards_by_path(s: &Server) {
    let first = s.get("/openapi.json").await;
    let document = first.json();
    let list = &document["paths"]["/reports/reports"]["get"];
    assert_eq!(
        list["x-linchpin-guards"],
        json!([{"name": "require_role", "argument": ["admin", "auditor"], "path": "/reports/{*rest}"}])
    );
    assert_eq!(list["security"], json!([{"userAuth": []}]));
    assert!(list["responses"]["401"].is_object() && list["responses"]["403"].is_object());
    let lines = &document["paths"]["/reports/lines"]["get"]["x-linchpin-guards"];
    assert_eq!(
        lines[1],
        json!({"name": "require_mfa", "path": "/reports/lines/{*rest}"})
    );
}

async fn path_patterns_without_routes_are_start_up_errors(s: &Server) {
    let app = || {
        App::new(
            Config::new()
                .signing_secret(SECRET)
                .port(0)
                .database("memory:"),
        )
        .plugin(JwtAuth::new())
        .plugin(Pages)
        .package(&HOUSE)
    };
    let start_error = async |app: App| {
        app.start()
            .await
            .err()
            .map_or_else(String::new, |error| error.to_string())
    };
    let error_text = start_error(
        app()
            .guard("/report/{*rest}", require_role(["admin"]))
            .guard("/inside/pages", require_role(["admin"]))
            .guard("/site/x/y", require_role(["admin"]))
            .guard("/health/ready", require_role(["admin"])),
    )
    .await;
    assert!(
        error_text.contains("guard of `/report/{*rest}`: no route matches")
            && error_text.contains("guard of `/inside/pages`"),
        "{error_text}"
    );
    assert!(
        !error_text.contains("/site") && !error_text.contains("/health"),
        "{error_text}"
    );
    let error_text = start_error(
        app()
            .guard("reports", require_role(["admin"]))
            .guard("/{*rest}/x", require_role(["admin"])),
    )
    .await;
    assert!(
        error_text.contains("guard of `reports`: a pattern begins with `/`")
            && error_text.contains("`{*rest}` must be the last segment"),
        "{error_text}"
    );
    let error_text = start_error(
        app()
            .guard("/reports/{*rest}", RouteGuard::named("require_mfaa"))
            .guard(
                "/reports/{*rest}",
                RouteGuard::with("bearer", GuardArg::Int(1)),
            )
            .guard("/reports/{*rest}", require_role(Vec::<String>::new())),
    )
    .await;
    for part in [
        "guard of `/reports/{*rest}` needs guard `require_mfaa`, but no plugin registers it; did you mean `require_mfa`?",
        "gives guard `bearer` an argument, and it takes none",
        "has no role, so no caller could pass",
    ] {
        assert!(error_text.contains(part), "{part} is not in\n{error_text}");
    }
    assert_eq!(s.get("/health/live").await.status, 200);
}
