//! Cookies that a sibling domain has planted, and redirects to pages: no user becomes another user,
//! loses a session, or stays signed in after signing out.

use linchpin_auth::{Auth, Limit, SameSite};

use crate::cases;
use crate::server::{Server, Store};
use crate::visitor::{UI, Visitor, text};

cases! {
    every_store:
        leaving_with_two_tokens, leaving_while_renewals_are_refused;
    one_store:
        a_page_that_nobody_waited_for, a_token_for_the_json_route, strict_cookies_and_a_link;
}

const TOKEN: &str = "__Host-token";
const REFRESH: &str = "__Secure-refresh_token";
const CSRF: &str = "csrf_token";

fn renewing(auth: Auth) -> Auth {
    auth.refresh_tokens()
}

/// The request of a script on one of our pages.
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

/// The script of a page sends the cookies; it cannot see whose they are.
async fn a_token_for_the_json_route(store: Store) {
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
    assert_eq!(
        ada.cookies, before,
        "it brings nothing, and takes nothing away"
    );
    // A planted cookie next to the user's own does not prevent the renewal.
    ada.cookies.clear();
    ada.sign_up("ada@example.test").await;
    let own = ada.cookies[REFRESH].clone();
    let named = own
        .rsplit_once('.')
        .map(|(front, body)| format!("{front}.{}{}", &body[..30], "A".repeat(body.len() - 30)))
        .unwrap();
    let mut latest = own.clone();
    for planted in [
        format!("{}; {REFRESH}={own}", eve.cookies[REFRESH]),
        format!("{own}; {REFRESH}=x"),
        // One that names the session, which is no secret, and is not of it.
        format!("{named}; {REFRESH}={own}"),
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
    // Of two tokens of the session the newer one is used, in any position: the older one would look
    // stolen.
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
    // A program that keeps cookies by hand may send this one alone. A browser does not.
    let mut alone = Visitor::new(&app);
    for name in [REFRESH, CSRF] {
        alone
            .cookies
            .insert(name.to_owned(), eve.cookies[name].clone());
    }
    assert_eq!(refresh(&app, &mut alone, false).await.status, 200);
    // A page elsewhere that has a token brings its session into no browser.
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

async fn leaving_with_two_tokens(store: Store) {
    let app = store.app_with(renewing).await;
    for (by_page, of_host) in [(true, true), (true, false), (false, true)] {
        let mut ada = Visitor::new(&app);
        ada.sign_up(&format!("{by_page}{of_host}@example.test"))
            .await;
        let (open, own) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
        app.advance(960).await;
        ada.cookies
            .insert(REFRESH.to_owned(), format!("x; {REFRESH}={own}"));
        if !of_host {
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
async fn leaving_while_renewals_are_refused(store: Store) {
    let few = |auth: Auth| {
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
    let app = store.app_with(few).await;
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
async fn a_page_that_nobody_waited_for(store: Store) {
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
    // In the second half of its lifetime it is replaced, so that a regular visitor stays signed in.
    let first = ada.cookies[REFRESH].clone();
    app.advance(16 * 86_400).await;
    assert!(ada.is_signed_in().await && ada.cookies[REFRESH] != first);
    app.advance(20 * 86_400).await;
    assert!(ada.is_signed_in().await);
    // But not where another site has sent the browser, and may send it away before it is here.
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

/// With strict cookies, a link of another site needs a click on a page of the app.
async fn strict_cookies_and_a_link(store: Store) {
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
        let at_home = std::mem::take(&mut ada.cookies);
        let on = ada.sent_back(&format!("{UI}{page}{query}")).await;
        let to = format!("{page}{query}&again=yes");
        assert_eq!(
            on.header("refresh"),
            format!("0; url={UI}{to}"),
            "{}",
            text(&on)
        );
        ada.cookies = at_home;
        let shown = ada.follow(&to).await;
        assert!(
            shown.status == 200 && shown.header("refresh").is_empty(),
            "{shown:?}"
        );
        assert!(
            text(&shown).contains("<a class=\"button\" href=\"/app\">Continue</a>"),
            "{}",
            text(&shown)
        );
    }
}
