//! Pages of other origins, opened in the browser of a signed-in user, change nothing, although they
//! send every request that browsers allow, with cookies. For a browser, another port of the same
//! host is the same site, so it sends all cookies. Another host is another site, so it sends only
//! the cookies whose `SameSite` attribute allows this.

use std::collections::BTreeMap;

use linchpin::axum::{self, Router, response::Html};
use linchpin_auth::{Auth, SameSite, Transport};
use serde_json::{Value as Json, json};

use crate::chromium::Browser;
use crate::server::{GOOD, Server, Store};

const ADA: &str = "ada@example.test";
const EVE: &str = "eve@example.test";
const NEW: &str = "another-lamp-for-otters";

/// Serves an empty page and returns its port.
async fn serve_empty_page() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = Router::new()
        .fallback(|| async { Html("<!doctype html><title>Elsewhere</title><body></body>") });
    tokio::spawn(async move { axum::serve(listener, app).await });
    port
}

/// Requests of scripts: method, path, body.
fn script_requests() -> Json {
    let eve = json!({ "email": EVE, "password": GOOD });
    json!([
        ["GET", "/auth/me", null],
        ["GET", "/auth/sessions", null],
        ["POST", "/auth/login", eve],
        ["POST", "/auth/register", { "email": "mallory@example.test", "password": GOOD }],
        ["POST", "/auth/refresh", {}],
        ["PATCH", "/auth/me", { "displayName": "Eve" }],
        ["POST", "/auth/set-password", { "password": NEW, "currentPassword": GOOD }],
        ["POST", "/auth/step-up", { "method": "password", "password": GOOD }],
        ["POST", "/auth/change-email", { "email": EVE, "password": GOOD }],
        ["POST", "/auth/sessions/revoke-others", null],
        ["DELETE", "/auth/sessions", null],
        ["DELETE", "/auth/me", { "password": GOOD }],
        ["POST", "/auth/logout", null],
    ])
}

/// Requests of forms: path and fields.
const FORMS: [(&str, &[(&str, &str)]); 11] = [
    ("/auth/login", &[("email", EVE), ("password", GOOD)]),
    (
        "/auth/register",
        &[("email", "mallory@example.test"), ("password", GOOD)],
    ),
    ("/auth/refresh", &[]),
    ("/auth/sessions/revoke-others", &[]),
    (
        "/auth/ui/sign-in",
        &[("identifier", EVE), ("password", GOOD)],
    ),
    (
        "/auth/ui/register",
        &[("identifier", "mallory@example.test"), ("password", GOOD)],
    ),
    (
        "/auth/ui/security/password",
        &[("password", NEW), ("currentPassword", GOOD)],
    ),
    ("/auth/ui/sessions/end-others", &[]),
    ("/auth/ui/delete", &[]),
    ("/auth/ui/sign-out", &[]),
    ("/auth/logout", &[]),
];

/// Sends requests from the open page, with and without a preflight. Returns the readable responses.
async fn send_by_scripts(browser: &mut Browser, app: &str) -> Json {
    browser
        .run(&format!(
            "(async () => {{
                const read = [];
                for (const [method, path, body] of {asked}) {{
                    const text = body && JSON.stringify(body);
                    const ways = [['no-cors', null], ['no-cors', 'text/plain'], ['cors', 'application/json'], ['cors', null]];
                    for (const [mode, type] of ways) {{
                        if (mode === 'no-cors' && method !== 'GET' && method !== 'POST') continue;
                        const sends = type && text && method !== 'GET';
                        const what = {{ method, mode, credentials: 'include', headers: sends ? {{ 'content-type': type }} : {{}} }};
                        if (sends) what.body = text;
                        const got = await fetch({app} + path, what).catch(() => null);
                        if (got && got.type !== 'opaque') read.push([method, path, got.status]);
                    }}
                }}
                return read;
            }})()",
            asked = script_requests(),
            app = json!(app),
        ))
        .await
}

/// Submits a form from the page; the browser follows the response.
async fn submit_form(browser: &mut Browser, action: &str, fields: &[(&str, &str)]) {
    browser
        .run(&format!(
            "(() => {{
                const form = document.createElement('form');
                [form.method, form.action] = ['post', {action}];
                for (const [name, value] of {fields}) {{
                    const field = document.createElement('input');
                    [field.name, field.value] = [name, value];
                    form.append(field);
                }}
                form.append(document.createElement('button'));
                document.body.append(form);
            }})()",
            action = json!(action),
            fields = json!(fields),
        ))
        .await;
    browser.submit("form", &[]).await;
}

/// The state that must not change: the browser's cookies, and the app's responses to them and to
/// Eve.
async fn state(browser: &mut Browser, app: &Server, origin: &str, eve: &str) -> Json {
    let urls = json!({ "urls": [origin, format!("{origin}/auth/refresh"), format!("{origin}/auth/ui/security")] });
    let cookies: BTreeMap<String, String> =
        browser.call("Network.getCookies", urls).await["cookies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cookie| {
                ["name", "value"]
                    .map(|member| cookie[member].as_str().unwrap().to_owned())
                    .into()
            })
            .collect();
    let cookie_header = cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join("; ");
    let sessions = async |cookies: &str| {
        let listed = app
            .raw("GET", "/auth/sessions", &[("cookie", cookies)], "")
            .await
            .json();
        listed["sessions"].as_array().map(|all| {
            all.iter()
                .map(|one| one["sessionId"].clone())
                .collect::<Vec<_>>()
        })
    };
    // The CSRF token is not compared, because a read of the session may renew it. Other origins
    // cannot read the new one, and the previous one stays valid.
    let cookies: BTreeMap<String, String> = cookies
        .into_iter()
        .map(|(name, value)| {
            if name == "csrf_token" {
                (name, String::new())
            } else {
                (name, value)
            }
        })
        .collect();
    let me = app
        .raw("GET", "/auth/me", &[("cookie", &cookie_header)], "")
        .await
        .json();
    let me = json!([
        me["id"],
        me["sessionId"],
        me["email"],
        me["displayName"],
        me["deletionScheduledFor"]
    ]);
    let mallory = app
        .post(
            "/__test/find",
            json!({ "identifier": "mallory@example.test" }),
        )
        .await
        .json();
    json!({ "cookies": cookies, "me": me, "sessions": sessions(&cookie_header).await, "eve": sessions(eve).await, "mallory": mallory["id"] })
}

/// Signs Ada in twice, once in the browser, and lets a page at this host send all requests. Returns
/// the state before and after.
async fn attack(host: &str, same_site: SameSite, csrf: bool) -> (Json, Json) {
    let store = Store::memory().at_a_free_port();
    let origin = format!("http://localhost:{}", store.port());
    let settings = |auth: Auth| {
        auth.transport(Transport::Cookie)
            .refresh_tokens()
            .configure(|config| {
                config.security.csrf = csrf;
                config.auth.cookies.same_site = same_site;
                // No request may be refused because of a limit.
                config.auth.rate_limit.enabled = false;
            })
    };
    let app = store.app_with(settings).await;
    let eve = app
        .post("/auth/register", json!({ "email": EVE, "password": GOOD }))
        .await
        .cookie_value("__Host-token");
    let eve = format!("__Host-token={eve}");
    let mut browser = Browser::start().await;
    browser.open(&format!("{origin}/auth/ui/register")).await;
    browser
        .submit("main form", &[("identifier", ADA), ("password", GOOD)])
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    assert_eq!(
        app.post("/auth/login", json!({ "email": ADA, "password": GOOD }))
            .await
            .status,
        200
    );
    let before = state(&mut browser, &app, &origin, &eve).await;
    let signed_in = before["me"][0].is_string() && before["cookies"]["__Host-token"].is_string();
    assert!(
        signed_in
            && before["sessions"]
                .as_array()
                .is_some_and(|all| all.len() == 2),
        "{before}"
    );
    let page = format!("http://{host}:{}/", serve_empty_page().await);
    browser.open(&page).await;
    assert_eq!(
        send_by_scripts(&mut browser, &origin).await,
        json!([]),
        "a script of {host} has read a response"
    );
    if csrf {
        assert_eq!(
            state(&mut browser, &app, &origin, &eve).await,
            before,
            "scripts of {host}"
        );
    }
    for (path, fields) in FORMS {
        browser.open(&page).await;
        submit_form(&mut browser, &format!("{origin}{path}"), fields).await;
        if csrf {
            assert_eq!(
                state(&mut browser, &app, &origin, &eve).await,
                before,
                "a form of {host} for {path}"
            );
        }
    }
    let after = state(&mut browser, &app, &origin, &eve).await;
    if csrf {
        // The attacked session still works.
        browser.open(&format!("{origin}/auth/ui/sessions")).await;
        assert!(
            browser.seen().await.contains("This device"),
            "{}",
            browser.seen().await
        );
        let login = app
            .post("/auth/login", json!({ "email": ADA, "password": GOOD }))
            .await;
        assert_eq!(login.status, 200, "the password is the same");
    }
    browser.stop().await;
    app.stop().await;
    (before, after)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_origins_change_nothing() {
    for (host, same_site) in [
        ("localhost", SameSite::Lax),
        ("localhost", SameSite::Strict),
        ("127.0.0.1", SameSite::Lax),
        ("127.0.0.1", SameSite::None),
    ] {
        let (before, after) = attack(host, same_site, true).await;
        assert_eq!(after, before, "{host}");
    }
}

/// Without the check of the origin the same requests would change data, because the cookies are
/// sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_origin_check_the_attacks_succeed() {
    for (host, same_site) in [("localhost", SameSite::Lax), ("127.0.0.1", SameSite::None)] {
        let (before, after) = attack(host, same_site, false).await;
        assert!(
            after["sessions"] != before["sessions"] && after["me"] != before["me"],
            "{host}: {before} {after}"
        );
    }
}
