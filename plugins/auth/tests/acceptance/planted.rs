//! Cookies that a sibling domain has planted, and redirects to pages: no user becomes another user,
//! loses a session, or stays signed in after signing out.

use linchpin_auth::{Auth, Limit, SameSite};

use crate::cases;
use crate::server::{Server, Store};
use crate::visitor::{UI, Visitor, text};

cases! {
    every_store:
        sign_out_ends_both_tokens, sign_out_works_while_renewals_are_refused;
    one_store:
        an_abandoned_page_keeps_the_refresh_token, a_planted_token_on_the_json_route_is_refused,
        a_link_of_another_site_needs_a_click_with_strict_cookies;
}

const TOKEN: &str = "__Host-token";
const REFRESH: &str = "__Secure-refresh_token";
const CSRF: &str = "csrf_token";

fn renewing(auth: Auth) -> Auth {
    auth.refresh_tokens()
}

/// The request of a script on a page of the app.
async fn refresh(app: &Server, who: &mut Visitor<'_>, from_browser: bool) -> crate::server::Reply {
    let (origin, csrf) = (
        format!("http://{}", app.host()),
        who.cookies.get(CSRF).cloned().unwrap_or_default(),
    );
    let mut headers = vec![("origin", origin.as_str()), ("x-csrf-token", csrf.as_str())];
    if from_browser {
        headers.push(("sec-fetch-site", "same-origin"));
    }
    who.send("POST", "/auth/refresh", &headers, "").await
}

/// A script sends all cookies of the browser and cannot see who set them.
async fn a_planted_token_on_the_json_route_is_refused(store: Store) {
    let app = store.app_with(renewing).await;
    let (mut ada, mut eve) = (Visitor::new(&app), Visitor::new(&app));
    eve.sign_up("eve@example.test").await;
    for name in [REFRESH, CSRF] {
        ada.cookies
            .insert(name.to_owned(), eve.cookies[name].clone());
    }
    let before = ada.cookies.clone();
    refresh(&app, &mut ada, true)
        .await
        .refused(403, "csrf_failed");
    assert_eq!(ada.cookies, before, "no cookie is set or cleared");
    // A planted cookie next to the user's own does not prevent the renewal.
    ada.cookies.clear();
    ada.sign_up("ada@example.test").await;
    let own = ada.cookies[REFRESH].clone();
    let forged = own
        .rsplit_once('.')
        .map(|(front, body)| format!("{front}.{}{}", &body[..30], "A".repeat(body.len() - 30)))
        .unwrap();
    let mut latest = own.clone();
    for planted in [
        format!("{}; {REFRESH}={own}", eve.cookies[REFRESH]),
        format!("{own}; {REFRESH}=x"),
        // A forged token with the handle of the session, which is not secret.
        format!("{forged}; {REFRESH}={own}"),
    ] {
        ada.cookies.insert(REFRESH.to_owned(), planted);
        let renewed = refresh(&app, &mut ada, true).await;
        assert_eq!(
            (
                renewed.status,
                app.me(&renewed.text("token")).await.text("email")
            ),
            (200, "ada@example.test".to_owned())
        );
        latest = ada.cookies.insert(REFRESH.to_owned(), own.clone()).unwrap();
        assert_ne!(latest, own);
    }
    // Of two tokens of the session the newer one is used, in any order: the older one would count
    // as stolen.
    for older_first in [true, false] {
        app.advance(11).await;
        let (first, second) = if older_first {
            (&own, &latest)
        } else {
            (&latest, &own)
        };
        ada.cookies
            .insert(REFRESH.to_owned(), format!("{first}; {REFRESH}={second}"));
        let renewed = refresh(&app, &mut ada, true).await;
        assert_eq!(renewed.status, 200, "{renewed:?}");
        latest = ada.cookies[REFRESH].clone();
    }
    // A client that is not a browser may send the refresh cookie without the `__Host-` cookie.
    let mut alone = Visitor::new(&app);
    for name in [REFRESH, CSRF] {
        alone
            .cookies
            .insert(name.to_owned(), eve.cookies[name].clone());
    }
    assert_eq!(refresh(&app, &mut alone, false).await.status, 200);
    // A page of another origin that has a token cannot set the session's cookies in a browser.
    let body = serde_json::json!({ "refreshToken": eve.cookies[REFRESH] }).to_string();
    let headers = [
        ("origin", "https://elsewhere.test"),
        ("content-type", "application/json"),
    ];
    let foreign = app.raw("POST", "/auth/refresh", &headers, &body).await;
    assert!(
        foreign.status == 200 && !foreign.headers.contains_key("set-cookie"),
        "{foreign:?}"
    );
}

async fn sign_out_ends_both_tokens(store: Store) {
    let app = store.app_with(renewing).await;
    for (by_page, with_host_cookie) in [(true, true), (true, false), (false, true)] {
        let mut ada = Visitor::new(&app);
        ada.sign_up(&format!("{by_page}{with_host_cookie}@example.test"))
            .await;
        let (open, own) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
        app.advance(960).await;
        ada.cookies
            .insert(REFRESH.to_owned(), format!("x; {REFRESH}={own}"));
        if !with_host_cookie {
            // A `__Host-` cookie is not sent to another host of the domain.
            ada.cookies.remove("__Host-renews");
        }
        let out = if by_page {
            ada.post("/sign-out", &[("csrf", &open)]).await
        } else {
            let (origin, csrf) = (format!("http://{}", app.host()), ada.cookies[CSRF].clone());
            ada.send(
                "POST",
                "/auth/logout",
                &[("origin", &origin), ("x-csrf-token", &csrf)],
                "",
            )
            .await
        };
        assert_eq!(out.status, if by_page { 303 } else { 200 }, "{out:?}");
        assert!(
            !ada.cookies.contains_key(REFRESH) && !ada.cookies.contains_key(TOKEN),
            "{:?}",
            ada.cookies
        );
        app.post("/auth/refresh", serde_json::json!({ "refreshToken": own }))
            .await
            .refused(401, "refresh_invalid");
    }
}

/// A sign-out works although another client of the same address tries tokens.
async fn sign_out_works_while_renewals_are_refused(store: Store) {
    let limited = |auth: Auth| {
        renewing(auth).configure(|config| {
            config.auth.rate_limit.buckets.insert(
                "refreshIp".to_owned(),
                Limit {
                    max: 1,
                    window_seconds: 60,
                },
            );
        })
    };
    let app = store.app_with(limited).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (open, own) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
    app.advance(960).await;
    app.post(
        "/auth/refresh",
        serde_json::json!({ "refreshToken": "v1.a.b" }),
    )
    .await
    .refused(401, "refresh_invalid");
    let out = ada
        .post(
            "/sign-out",
            &[("csrf", &open), ("again", "yes"), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        (out.status, out.header("location").as_str()),
        (303, "/auth/ui/sign-in?returnTo=%2Fapp&done=signed-out"),
        "{}",
        text(&out)
    );
    assert!(!ada.cookies.contains_key(REFRESH), "{:?}", ada.cookies);
    app.advance(61).await;
    app.post("/auth/refresh", serde_json::json!({ "refreshToken": own }))
        .await
        .refused(401, "refresh_invalid");
}

/// A page that is left before it loads does not invalidate the refresh token.
async fn an_abandoned_page_keeps_the_refresh_token(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let id = app.me(&ada.cookies[TOKEN]).await.text("id");
    for _ in 0..3 {
        app.advance(960).await;
        let before = ada.cookies.clone();
        assert_eq!(ada.get("/security").await.status, 200);
        ada.cookies = before;
    }
    assert!(ada.is_signed_in().await);
    assert_eq!(app.me(&ada.cookies[TOKEN]).await.text("id"), id);
    // A late response does not replace the newer token of another window.
    app.advance(960).await;
    let mut other = Visitor::new(&app);
    other.cookies = ada.cookies.clone();
    let late = other.get("/security").await;
    assert!(
        late.cookie(REFRESH).is_none()
            && late.cookie("__Host-renews").is_none()
            && late.cookie(TOKEN).is_some(),
        "{late:?}"
    );
    assert_eq!(refresh(&app, &mut ada, true).await.status, 200);
    app.advance(11).await;
    assert_eq!(refresh(&app, &mut ada, true).await.status, 200);
    // In the second half of its lifetime the refresh token is rotated, so that a regular user stays
    // signed in.
    let first = ada.cookies[REFRESH].clone();
    app.advance(16 * 86_400).await;
    assert!(ada.is_signed_in().await && ada.cookies[REFRESH] != first);
    app.advance(20 * 86_400).await;
    assert!(ada.is_signed_in().await);
    // It is not rotated if another site sent the browser here, because that site may navigate the
    // browser away before the response arrives.
    app.advance(16 * 86_400).await;
    let before = ada.cookies.clone();
    assert_eq!(
        ada.follow("/sign-in?returnTo=/app&again=yes")
            .await
            .header("location"),
        "/app"
    );
    ada.cookies = before;
    app.advance(11).await;
    assert!(ada.is_signed_in().await);
}

/// With `SameSite=Strict` cookies, a user who follows a link of another site must click on a page
/// of the app.
async fn a_link_of_another_site_needs_a_click_with_strict_cookies(store: Store) {
    let strict = |auth: Auth| {
        renewing(auth).configure(|config| config.auth.cookies.same_site = SameSite::Strict)
    };
    let app = store.app_with(strict).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    for (page, query) in [
        ("/sign-in", "?returnTo=/app"),
        ("/register", "?returnTo=/app"),
        ("/sign-in", "?again=&returnTo=/app"),
    ] {
        let cookies = std::mem::take(&mut ada.cookies);
        let redirected = ada.sent_back(&format!("{UI}{page}{query}")).await;
        let to = format!("{page}{query}&again=yes");
        assert_eq!(
            redirected.header("refresh"),
            format!("0; url={UI}{to}"),
            "{}",
            text(&redirected)
        );
        ada.cookies = cookies;
        let landing = ada.follow(&to).await;
        assert!(
            landing.status == 200 && landing.header("refresh").is_empty(),
            "{landing:?}"
        );
        assert!(
            text(&landing).contains("<a class=\"button\" href=\"/app\">Continue</a>"),
            "{}",
            text(&landing)
        );
    }
}
