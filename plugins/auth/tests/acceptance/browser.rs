//! CSRF checks, actors, and guards on the app's own routes.

use linchpin::http::{GuardArg, RouteGuard};
use linchpin::prelude::*;
use linchpin_auth::{ApiCredential, Auth, SecretText, Transport};
use serde_json::json;

use crate::cases;
use crate::server::{GOOD, Reply, Store};
use crate::testbed::NOTES;

cases! {
    one_store:
        cookie_requests_need_origin_and_csrf_token, allowed_origins_may_send_and_read_requests,
        the_actor_reaches_the_apps_own_routes, guards_by_path_run_before_the_policy,
        bearer_routes_take_api_credentials, unverified_accounts_are_refused_by_the_guard,
        policies_that_no_caller_can_pass_are_start_up_errors,
        each_transport_accepts_sessions_in_one_way;
}

async fn cookie_requests_need_origin_and_csrf_token(store: Store) {
    let app = store.app().await;
    app.register("ada@example.test").await;
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    let (token, csrf) = (login.text("token"), login.cookie_value("csrf_token"));
    let eve = app
        .post(
            "/auth/register",
            json!({ "email": "eve@example.test", "password": GOOD }),
        )
        .await
        .cookie_value("csrf_token");
    let origin = format!("http://{}", app.host());
    let create = async |csrf_cookie: &str, header: Option<&str>, origin: Option<&str>| {
        let cookies = format!("__Host-token={token}; csrf_token={csrf_cookie}");
        let mut headers = vec![
            ("cookie", cookies.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(header.map(|value| ("x-csrf-token", value)));
        headers.extend(origin.map(|value| ("origin", value)));
        app.raw("POST", "/notes", &headers, r#"{"text":"hi"}"#)
            .await
    };
    let ours = Some(origin.as_str());
    for (cookie, header, from) in [
        (csrf.as_str(), None, ours),
        (&csrf, Some("wrong"), ours),
        (&csrf, Some(csrf.as_str()), Some("https://evil.test")),
        (&csrf, Some(&csrf), Some("null")),
        (&csrf, Some(&csrf), None),
        (&eve, Some(eve.as_str()), ours),
    ] {
        create(cookie, header, from)
            .await
            .refused(403, "csrf_failed");
    }
    assert_eq!(create(&csrf, Some(&csrf), ours).await.status, 201);
    assert_eq!(
        app.with(&token, "POST", "/notes", Some(json!({ "text": "hi" })))
            .await
            .status,
        201
    );
    // A read needs no CSRF token, and a client without a token gets a new one.
    let cookies = format!("__Host-token={token}");
    let me = app
        .raw("GET", "/auth/me", &[("cookie", &cookies)], "")
        .await;
    let new_csrf = me.cookie_value("csrf_token");
    assert!(me.status == 200 && new_csrf != csrf);
    assert_eq!(create(&new_csrf, Some(&new_csrf), ours).await.status, 201);
    // A page of another origin cannot sign anyone in, with any cookies.
    let body = json!({ "email": "ada@example.test", "password": GOOD }).to_string();
    let login = async |headers: &[(&str, &str)]| {
        let all: Vec<_> = headers
            .iter()
            .copied()
            .chain([
                ("content-type", "application/json"),
                ("cookie", cookies.as_str()),
            ])
            .collect();
        app.raw("POST", "/auth/login", &all, &body).await
    };
    login(&[("origin", "https://evil.test")])
        .await
        .refused(403, "csrf_failed");
    login(&[("sec-fetch-site", "cross-site")])
        .await
        .refused(403, "csrf_failed");
    assert_eq!(login(&[("origin", &origin)]).await.status, 200);
    assert_eq!(login(&[]).await.status, 200);
}

/// One list contains the origins whose pages may send cookies, change data with them, and read the
/// responses.
async fn allowed_origins_may_send_and_read_requests(store: Store) {
    const SPA: &str = "https://spa.test";
    let with_transport = |transport| {
        move |auth: Auth| {
            auth.transport(transport)
                .configure(|config| config.security.allowed_origins.push(SPA.to_owned()))
        }
    };
    let cors_allows = |reply: &Reply| {
        let allows = |name: &str, value: &str| {
            reply.header(&format!("access-control-allow-{name}")) == value
        };
        (allows("origin", SPA), allows("credentials", "true"))
    };
    let preflight_headers = [
        ("origin", SPA),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-csrf-token"),
    ];
    let app = store.app_with(with_transport(Transport::Both)).await;
    app.register("ada@example.test").await;
    let preflight = app
        .any("OPTIONS", "/auth/login", &preflight_headers, "")
        .await;
    assert_eq!(
        (preflight.status, cors_allows(&preflight)),
        (204, (true, true)),
        "{preflight:?}"
    );
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        "x-csrf-token"
    );
    let body = json!({ "email": "ada@example.test", "password": GOOD }).to_string();
    let login = app
        .raw(
            "POST",
            "/auth/login",
            &[("origin", SPA), ("content-type", "application/json")],
            &body,
        )
        .await;
    assert_eq!(
        (login.status, cors_allows(&login)),
        (200, (true, true)),
        "{login:?}"
    );
    let csrf = login.cookie_value("csrf_token");
    let cookies = format!("__Host-token={}; csrf_token={csrf}", login.text("token"));
    let sent = [
        ("cookie", cookies.as_str()),
        ("x-csrf-token", csrf.as_str()),
        ("origin", SPA),
        ("content-type", "application/json"),
    ];
    let made = app.raw("POST", "/notes", &sent, r#"{"text":"hi"}"#).await;
    assert_eq!(
        (made.status, cors_allows(&made)),
        (201, (true, true)),
        "{made:?}"
    );
    let foreign = app
        .raw(
            "GET",
            "/auth/me",
            &[sent[0], ("origin", "https://evil.test")],
            "",
        )
        .await;
    assert_eq!(
        (
            foreign.header("access-control-allow-origin"),
            foreign.header("vary")
        ),
        (String::new(), "origin".to_owned())
    );
    app.stop().await;
    // Without session cookies, other origins may not send credentials.
    let app = store.app_with(with_transport(Transport::Bearer)).await;
    assert_eq!(
        cors_allows(
            &app.any("OPTIONS", "/auth/login", &preflight_headers, "")
                .await
        ),
        (true, false)
    );
}

async fn the_actor_reaches_the_apps_own_routes(store: Store) {
    let credential = ApiCredential {
        id: "robot".into(),
        token: SecretText::new("a-token-of-a-program-of-32-characters"),
        roles: vec!["admin".into()],
    };
    let app = store
        .app_with(|auth| auth.configure(|config| config.security.api_credentials.push(credential)))
        .await;
    let anonymous = app
        .raw("GET", "/__test/actor", &[("x-actor-id", "admin")], "")
        .await
        .json();
    assert_eq!(
        anonymous,
        json!({ "id": null, "kind": "anonymous", "tenantId": null, "sessionId": null, "roles": [], "claims": {} })
    );
    let ada = app.register("ada@example.test").await;
    let user = app.get(&ada.token, "/__test/actor").await.json();
    assert_eq!(
        (&user["id"], &user["kind"], &user["roles"]),
        (&json!(ada.id), &json!("user"), &json!(["member"]))
    );
    assert_eq!(user["claims"]["sub"], json!(ada.id));
    let robot = "a-token-of-a-program-of-32-characters";
    let service = app.get(robot, "/__test/actor").await.json();
    assert_eq!(
        (&service["id"], &service["kind"], &service["roles"]),
        (&json!("robot"), &json!("service"), &json!(["admin"]))
    );
    app.get(robot, "/__test/protected/user")
        .await
        .refused(403, "forbidden");
    app.me(robot).await.refused(403, "forbidden");
    // A user's token in the same request has priority.
    let both = [
        (
            "authorization",
            "Bearer a-token-of-a-program-of-32-characters",
        ),
        ("x-user-token", ada.token.as_str()),
    ];
    assert_eq!(
        app.raw("GET", "/auth/me", &both, "").await.text("id"),
        ada.id
    );
    // If the request has a user's token, the app ignores the session cookie, and sets no CSRF
    // cookie for its session.
    let eve = app.register("eve@example.test").await;
    let cookie = format!("__Host-token={}", eve.token);
    let mixed = app
        .raw(
            "GET",
            "/auth/me",
            &[("x-user-token", ada.token.as_str()), ("cookie", &cookie)],
            "",
        )
        .await;
    assert_eq!(
        (mixed.text("id"), mixed.cookie("csrf_token")),
        (ada.id.clone(), None)
    );
    let similar = "a-token-of-a-program-of-32-characterz";
    assert_eq!(
        app.get(similar, "/__test/actor").await.json()["kind"],
        "anonymous"
    );
}

/// A guard by path runs before the policy of every route below the path.
async fn guards_by_path_run_before_the_policy(store: Store) {
    let app = store
        .guarded("/notes/{*rest}", linchpin::http::require_role(["member"]))
        .await
        .unwrap();
    let ada = app.register("ada@example.test").await;
    let create = async |token: &str| {
        app.with(token, "POST", "/notes", Some(json!({ "text": "hi" })))
            .await
    };
    app.raw(
        "POST",
        "/notes",
        &[("content-type", "application/json")],
        "{bad",
    )
    .await
    .refused(401, "unauthorized");
    assert_eq!(create(&ada.token).await.status, 201);
    app.get(&ada.token, "/notes")
        .await
        .refused(403, "forbidden");
    app.change(&ada.id, json!({ "roles": ["admin"] })).await;
    create(&ada.token).await.refused(403, "forbidden");
    app.get(&ada.token, "/notes")
        .await
        .refused(403, "forbidden");
    app.change(&ada.id, json!({ "roles": ["admin", "member"] }))
        .await;
    assert_eq!(app.get(&ada.token, "/notes").await.status, 200);
    app.stop().await;
    let error = match store
        .guarded("/nothing/{*rest}", linchpin::http::require_role(["member"]))
        .await
    {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("/nothing/{*rest}"), "{error}");
}

async fn bearer_routes_take_api_credentials(store: Store) {
    let credential = ApiCredential {
        id: "robot".into(),
        token: SecretText::new("a-token-of-a-program-of-32-characters"),
        roles: Vec::new(),
    };
    let app = store
        .app_with(|auth| auth.configure(|config| config.security.api_credentials.push(credential)))
        .await;
    let ada = app.register("ada@example.test").await;
    let note = app
        .with(&ada.token, "POST", "/notes", Some(json!({ "text": "hi" })))
        .await
        .text("id");
    let path = format!("/notes/{note}");
    app.raw("DELETE", &path, &[], "")
        .await
        .refused(401, "unauthorized");
    app.with(&ada.token, "DELETE", &path, None)
        .await
        .refused(403, "forbidden");
    assert_eq!(
        app.with(
            "a-token-of-a-program-of-32-characters",
            "DELETE",
            &path,
            None
        )
        .await
        .status,
        204
    );
}

/// A policy that no caller can pass is a start-up error. The error names the missing setting.
async fn policies_that_no_caller_can_pass_are_start_up_errors(store: Store) {
    let config = Config::new()
        .signing_secret("a-signing-secret-of-32-characters-or-more")
        .port(0)
        .database("memory:");
    let text = match App::new(config)
        .plugin(Auth::new().roles(["admin"]))
        .package(&NOTES)
        .start()
        .await
    {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    let wanted = "needs auth `bearer`, which no caller could pass: list its credential in `security.apiCredentials`, as { id, token, roles }";
    assert!(
        text.contains("route `delete` of `Note` (")
            && text.contains(wanted)
            && !text.contains("help:"),
        "{text}"
    );
    for (guard, argument, part) in [
        (
            "require_step_up",
            GuardArg::Text("x"),
            "the argument \"x\", and it takes a whole number of seconds, 1 or more, such as `require_step_up(300)`",
        ),
        (
            "require_step_up",
            GuardArg::Int(0),
            "the argument 0, and it takes a whole number of seconds, 1 or more, such as `require_step_up(300)`",
        ),
        (
            "require_step_up",
            GuardArg::Int(-5),
            "the argument -5, and it takes a whole number of seconds, 1 or more, such as `require_step_up(300)`",
        ),
        (
            "require_recent",
            GuardArg::Int(5),
            "the argument 5, and it takes none",
        ),
        (
            "require_mfa",
            GuardArg::Int(2),
            "an argument, and it takes none",
        ),
    ] {
        let text = match store
            .guarded("/notes/{*rest}", RouteGuard::with(guard, argument))
            .await
        {
            Ok(_) => panic!("the app started"),
            Err(error) => error.to_string(),
        };
        assert!(
            text.contains("guard of `/notes/{*rest}` gives guard `") && text.contains(part),
            "{part} is not in {text}"
        );
    }
}

async fn unverified_accounts_are_refused_by_the_guard(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let note = app
        .with(&ada.token, "POST", "/notes", Some(json!({ "text": "hi" })))
        .await
        .text("id");
    let path = format!("/notes/{note}");
    app.get(&ada.token, &path)
        .await
        .refused(403, "email_not_verified");
    app.get(&ada.token, "/__test/protected/verified")
        .await
        .refused(403, "email_not_verified");
    app.get(&ada.token, "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.get(&ada.token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    let bearer = format!("Bearer {}", ada.token);
    // Refused before the body is read.
    let patch = app
        .raw(
            "PATCH",
            &path,
            &[
                ("authorization", &bearer),
                ("content-type", "application/json"),
            ],
            "{bad",
        )
        .await;
    patch.refused(403, "step_up_required");
    for path in [
        &path,
        "/__test/protected/verified",
        "/__test/protected/mfa",
        "/__test/protected/step-up",
    ] {
        app.raw("GET", path, &[], "")
            .await
            .refused(401, "unauthorized");
    }
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    assert_eq!(app.get(&ada.token, &path).await.status, 200);
}

/// The transports `Cookie` and `Bearer` return a session in one way only.
async fn each_transport_accepts_sessions_in_one_way(store: Store) {
    use linchpin_auth::Transport;
    let app = store
        .app_with(|auth| auth.refresh_tokens().transport(Transport::Cookie))
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (made.status, &made.json()["token"]),
        (201, &json!("")),
        "{made:?}"
    );
    assert!(made.json().get("refreshToken").is_none());
    let cookie = format!("__Host-token={}", made.cookie_value("__Host-token"));
    assert_eq!(
        app.raw("GET", "/auth/me", &[("cookie", &cookie)], "")
            .await
            .status,
        200
    );
    app.stop().await;
    let app = store
        .app_with(|auth| auth.transport(Transport::Bearer))
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "bob@example.test", "password": GOOD }),
        )
        .await;
    assert!(
        made.status == 201 && !made.headers.contains_key("set-cookie"),
        "{made:?}"
    );
    let cookie = format!("__Host-token={}", made.text("token"));
    app.raw("GET", "/auth/me", &[("cookie", &cookie)], "")
        .await
        .refused(401, "unauthorized");
}
