//! Cookies with a domain or a path, and planted cookies.

use linchpin_auth::Auth;
use serde_json::json;

use crate::cases;
use crate::factor::{code_at, enrolled};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store, claims};
use crate::visitor::Visitor;

cases! {
    one_store:
        cookies_of_a_domain_have_their_attributes, cookies_of_a_path_have_their_attributes,
        a_planted_session_is_not_reused_at_sign_in;
}

/// The attributes of a cookie, in order.
fn attributes(reply: &Reply, name: &str) -> Vec<String> {
    let set = reply
        .cookie(name)
        .unwrap_or_else(|| panic!("no {name} in {reply:?}"));
    let mut rest: Vec<String> = set
        .split("; ")
        .skip(1)
        .filter(|part| !part.starts_with("Max-Age="))
        .map(str::to_owned)
        .collect();
    rest.sort();
    rest
}

async fn login(app: &Server) -> Reply {
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": GOOD }),
    )
    .await
}

/// Checks each cookie of a session, when it is set and when it is cleared.
async fn check_attributes(app: &Server, cookies: &[(&str, &[&str])]) -> SignedIn {
    app.register("ada@x.test").await;
    let set = login(app).await;
    let who = set.signed_in();
    let out = app.with(&who.token, "POST", "/auth/logout", None).await;
    for (name, expected) in cookies {
        assert_eq!(attributes(&set, name), *expected, "{name}");
        // The device cookie is kept.
        if !name.ends_with("device") {
            assert_eq!(attributes(&out, name), *expected, "{name}");
            assert!(
                out.cookie(name).unwrap().starts_with(&format!("{name}=;"))
                    && out.cookie(name).unwrap().contains("; Max-Age=0")
            );
        }
    }
    assert_eq!(
        (
            set.headers.get_all("set-cookie").iter().count(),
            out.headers.get_all("set-cookie").iter().count()
        ),
        (5, 4),
        "{set:?}"
    );
    login(app).await.signed_in()
}

async fn accepts_cookie(app: &Server, name: &str, token: &str) -> bool {
    app.raw(
        "GET",
        "/auth/me",
        &[("cookie", &format!("{name}={token}"))],
        "",
    )
    .await
    .status
        == 200
}

async fn cookies_of_a_domain_have_their_attributes(store: Store) {
    let shared = |auth: Auth| {
        auth.refresh_tokens()
            .configure(|config| config.auth.cookies.domain = Some("me.test".into()))
    };
    let app = store.app_with(shared).await;
    let ada = check_attributes(
        &app,
        &[
            (
                "__Secure-token",
                &[
                    "Domain=me.test",
                    "HttpOnly",
                    "Path=/",
                    "SameSite=Lax",
                    "Secure",
                ],
            ),
            (
                "__Secure-refresh_token",
                &[
                    "Domain=me.test",
                    "HttpOnly",
                    "Path=/auth",
                    "SameSite=Strict",
                    "Secure",
                ],
            ),
            (
                "__Secure-device",
                &[
                    "Domain=me.test",
                    "HttpOnly",
                    "Path=/auth",
                    "SameSite=Lax",
                    "Secure",
                ],
            ),
            (
                "csrf_token",
                &["Domain=me.test", "Path=/", "SameSite=Lax", "Secure"],
            ),
            // A sibling domain cannot set this cookie.
            (
                "__Host-renews",
                &["HttpOnly", "Path=/", "SameSite=Strict", "Secure"],
            ),
        ],
    )
    .await;
    assert!(accepts_cookie(&app, "__Secure-token", &ada.token).await);
    for name in ["__Host-token", "token", "__secure-token", "__Secure-Token"] {
        assert!(!accepts_cookie(&app, name, &ada.token).await, "{name}");
    }
    // Another host of the domain renews the session.
    let set = login(&app).await;
    let (refresh, csrf) = (
        set.cookie_value("__Secure-refresh_token"),
        set.cookie_value("csrf_token"),
    );
    let (cookies, origin) = (
        format!("__Secure-refresh_token={refresh}; csrf_token={csrf}"),
        format!("http://{}", app.host()),
    );
    let headers = [
        ("cookie", cookies.as_str()),
        ("x-csrf-token", &csrf),
        ("origin", &origin),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(
        app.raw("POST", "/auth/refresh", &headers, "").await.status,
        200
    );
    let page = Visitor::new(&app).get("/sign-in").await;
    assert_eq!(
        attributes(&page, "__Host-browser"),
        ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]
    );
}

async fn cookies_of_a_path_have_their_attributes(store: Store) {
    let with_path = |auth: Auth| {
        auth.refresh_tokens()
            .configure(|config| config.auth.cookies.path = "/app".into())
    };
    let app = store.app_with(with_path).await;
    let ada = check_attributes(
        &app,
        &[
            (
                "__Secure-token",
                &["HttpOnly", "Path=/app", "SameSite=Lax", "Secure"],
            ),
            (
                "__Secure-refresh_token",
                &["HttpOnly", "Path=/auth", "SameSite=Strict", "Secure"],
            ),
            (
                "__Secure-device",
                &["HttpOnly", "Path=/auth", "SameSite=Lax", "Secure"],
            ),
            ("csrf_token", &["Path=/", "SameSite=Lax", "Secure"]),
            (
                "__Host-renews",
                &["HttpOnly", "Path=/", "SameSite=Strict", "Secure"],
            ),
        ],
    )
    .await;
    assert!(accepts_cookie(&app, "__Secure-token", &ada.token).await);
    for name in ["__Host-token", "token"] {
        assert!(!accepts_cookie(&app, name, &ada.token).await, "{name}");
    }
}

/// A sign-in always creates a new session, whatever cookies were planted in the browser.
async fn a_planted_session_is_not_reused_at_sign_in(store: Store) {
    let post = Post::default();
    let app = crate::factor::app(&store, &post).await;
    let attacker = app
        .post(
            "/auth/register",
            json!({ "email": "eve@x.test", "password": GOOD }),
        )
        .await;
    let (eve, planted) = (attacker.signed_in(), attacker.cookie_value("csrf_token"));
    let eve_account = app.me(&eve.token).await.json();
    app.register("ada@x.test").await;
    let bob = enrolled(&app, "bob@x.test").await;
    let origin = format!("http://{}", app.host());
    let jar = format!("__Host-token={}; csrf_token={planted}", eve.token);
    let send =
        async |method: &str, path: &str, cookies: &str, csrf: &str, body: serde_json::Value| {
            let headers = [
                ("cookie", cookies),
                ("origin", origin.as_str()),
                ("x-csrf-token", csrf),
                ("content-type", "application/json"),
            ];
            app.raw(method, path, &headers, &body.to_string()).await
        };
    app.advance(30).await;
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let link = post.token("magic_link", 1).await;
    let challenge = send(
        "POST",
        "/auth/login",
        &jar,
        &planted,
        json!({ "email": "bob@x.test", "password": GOOD }),
    )
    .await;
    assert!(
        challenge.status == 200 && challenge.headers.get("set-cookie").is_none(),
        "{challenge:?}"
    );
    let answer =
        json!({ "mfaToken": challenge.text("mfaToken"), "code": code_at(&app, &bob.secret, 0) });
    let mut sessions = vec![claims(&eve.token)["sid"].clone()];
    for (path, body, email) in [
        (
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD }),
            "ada@x.test",
        ),
        ("/auth/mfa/verify", answer, "bob@x.test"),
        (
            "/auth/magic-link/verify",
            json!({ "token": link }),
            "ada@x.test",
        ),
    ] {
        let reply = send("POST", path, &jar, &planted, body).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        let (token, csrf) = (
            reply.cookie_value("__Host-token"),
            reply.cookie_value("csrf_token"),
        );
        let sid = claims(&token)["sid"].clone();
        assert!(!sessions.contains(&sid) && csrf != planted, "{path}");
        sessions.push(sid);
        assert_eq!(app.me(&token).await.text("email"), email, "{path}");
        // The planted session is unchanged and still belongs to its owner.
        assert_eq!(app.me(&eve.token).await.json(), eve_account, "{path}");
        let list = app.get(&eve.token, "/auth/sessions").await.json();
        assert_eq!(
            list["sessions"].as_array().map(Vec::len),
            Some(1),
            "{path}: {list}"
        );
        // The planted CSRF token does not work with the new session, as cookie, as header or as
        // both.
        for (cookie, header) in [(&planted, &planted), (&csrf, &planted), (&planted, &csrf)] {
            let cookies = format!("__Host-token={token}; csrf_token={cookie}");
            send("PATCH", "/auth/me", &cookies, header, json!({}))
                .await
                .refused(403, "csrf_failed");
        }
        let cookies = format!("__Host-token={token}; csrf_token={csrf}");
        assert_eq!(
            send("PATCH", "/auth/me", &cookies, &csrf, json!({}))
                .await
                .status,
            200,
            "{path}"
        );
    }
}
