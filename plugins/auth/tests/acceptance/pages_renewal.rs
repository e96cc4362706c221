//! Sessions that are renewed while pages and their forms are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::store::memory::Memory;
use linchpin::store::{Plan, Reply as Answer, Rows, Statement};
use linchpin::{Error, Value};
use linchpin_auth::{Auth, Limit};
use serde_json::json;

use crate::around::{Around, Watch};
use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};
use crate::visitor::{UI, Visitor, form, hidden, text};

cases! {
    every_store:
        pages_renew_the_session, two_windows_renew_one_session,
        a_full_refresh_limit_of_an_address_does_not_lock_users_out,
        forms_from_before_a_renewal_work,
        a_refused_renewal_ends_the_session;
    one_store:
        a_forged_form_renews_nothing, strict_cookies_are_missing_on_links_of_other_sites,
        a_planted_refresh_token_is_ignored,
        the_requested_page_and_notices_survive_a_renewal, sign_out_works_without_a_renewal;
}

const TOKEN: &str = "__Host-token";
/// The page to which a visitor without a session is redirected.
const SIGN_IN: &str = "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsecurity";
const REFRESH: &str = "__Secure-refresh_token";

/// Sessions that are renewed every quarter of an hour, and an administrator who may read the audit
/// log.
fn renewing(auth: Auth) -> Auth {
    with_admin(auth.refresh_tokens())
}

fn with_admin(auth: Auth) -> Auth {
    auth.configure(|config| config.auth.admin_role = Some("admin".into()))
}

/// The number of requests that the audit log lists as refused because they were forged.
async fn audited_forgeries(app: &Server) -> usize {
    let root = app.admin("root@example.test").await;
    let audit = app
        .get(&root.token, "/auth/admin/audit?event=auth:csrf.failed")
        .await;
    assert_eq!(audit.status, 200, "{audit:?}");
    audit.json()["items"].as_array().unwrap().len()
}

async fn pages_renew_the_session(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (first, before) = (ada.cookies[TOKEN].clone(), ada.cookies[REFRESH].clone());
    assert_eq!(ada.get("/security").await.status, 200);
    assert_eq!(ada.cookies[REFRESH], before, "a valid token is not renewed");
    app.advance(960).await;
    app.me(&first).await.refused(401, "unauthorized");
    let page = ada.get("/security").await;
    assert!(
        page.status == 200 && text(&page).contains("ada@example.test"),
        "{}",
        text(&page)
    );
    assert!(ada.cookies[TOKEN] != first && ada.cookies[REFRESH] == before);
    assert_eq!(app.me(&ada.cookies[TOKEN]).await.status, 200);
    // If a page of the app redirects here to sign in, the session is renewed and the user returns
    // at once. The browser has dropped the expired token by itself.
    app.advance(960).await;
    ada.cookies.remove(TOKEN);
    let back = ada.get("/sign-in?returnTo=/app").await;
    assert_eq!(
        (back.status, back.header("location").as_str()),
        (303, "/app")
    );
    assert_eq!(app.me(&ada.cookies[TOKEN]).await.status, 200);
    // Signing out always succeeds: tokens that were renewed during the request are cleared.
    let csrf = ada.csrf("/security").await;
    app.advance(960).await;
    let out = ada.post("/sign-out", &[("csrf", &csrf)]).await;
    assert_eq!(out.header("location"), "/auth/ui/sign-in?done=signed-out");
    assert!(
        !ada.cookies.contains_key(TOKEN) && !ada.cookies.contains_key(REFRESH),
        "{:?}",
        ada.cookies
    );
    assert!(!ada.is_signed_in().await);
}

async fn forms_from_before_a_renewal_work(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    let form_without_session = ada.csrf("/sign-in").await;
    ada.sign_up("ada@example.test").await;
    let open = ada.csrf("/security").await;
    app.advance(960).await;
    let done = ada.post("/sessions/end-others", &[("csrf", &open)]).await;
    assert_eq!(
        done.header("location"),
        "/auth/ui/sessions?done=sessions",
        "{}",
        text(&done)
    );
    let wrong = ada
        .fill("/confirm", "/confirm", &[("password", "wrong")])
        .await;
    assert!(
        wrong.status == 401 && text(&wrong).contains("role=\"alert\">The password is not right."),
        "{}",
        text(&wrong)
    );
    // The form also works after a step-up in between.
    let proved = ada
        .fill("/confirm", "/confirm", &[("password", GOOD)])
        .await;
    assert_eq!(proved.status, 303, "{}", text(&proved));
    let done = ada.post("/sessions/end-others", &[("csrf", &open)]).await;
    assert_eq!(
        done.header("location"),
        "/auth/ui/sessions?done=sessions",
        "{}",
        text(&done)
    );
    // A form that was opened before the sign-in redirects and has no effect.
    let fields = [
        ("csrf", form_without_session.as_str()),
        ("identifier", "ada@example.test"),
        ("password", GOOD),
    ];
    for path in ["/sign-in", "/register"] {
        let reply = ada
            .post(
                path,
                &[fields[0], fields[1], fields[2], ("returnTo", "/app")],
            )
            .await;
        assert_eq!(
            (reply.status, reply.header("location").as_str()),
            (303, "/auth/ui/security?failed=overtaken")
        );
    }
    assert!(
        text(&ada.get("/security?failed=overtaken").await)
            .contains("You have signed in since the form was opened")
    );
    // When the session has ended, the user is asked to sign in.
    ada.fill("/security", "/sign-out", &[]).await;
    let asked = ada.post("/sessions/end-others", &[("csrf", &open)]).await;
    assert_eq!(
        (asked.status, asked.header("location").as_str()),
        (303, "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsecurity")
    );
    assert_eq!(audited_forgeries(&app).await, 0);
}

/// A browser does not send `SameSite=Strict` cookies with a request that another site caused.
async fn strict_cookies_are_missing_on_links_of_other_sites(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    app.advance(960).await;
    let refresh_token = ada.cookies.remove(REFRESH).unwrap();
    ada.cookies.remove(TOKEN);
    let path = "/sign-in?returnTo=/app%3Fa=b";
    let redirected = ada.sent_back(&format!("{UI}{path}")).await;
    let to = format!("{UI}{path}&again=yes");
    assert_eq!(
        (redirected.status, redirected.header("refresh")),
        (200, format!("0; url={to}")),
        "{}",
        text(&redirected)
    );
    assert!(
        text(&redirected).contains("href=\"/auth/ui/sign-in?returnTo=/app%3Fa=b&amp;again=yes\""),
        "{}",
        text(&redirected)
    );
    // There is at most one redirect for a renewal, whatever the browser sends.
    let asked = ada.sent_back(&to).await;
    assert!(
        asked.status == 200
            && asked.header("refresh").is_empty()
            && hidden(&asked, "csrf").is_some(),
        "{}",
        text(&asked)
    );
    ada.cookies.insert(REFRESH.to_owned(), refresh_token);
    let back = ada.follow(&format!("{path}&again=yes")).await;
    assert_eq!(
        (back.status, back.header("location").as_str()),
        (303, "/app?a=b")
    );
    // Without refresh tokens there is no such redirect.
    app.stop().await;
    let app = store.app().await;
    let asked = Visitor::new(&app).sent_back(&format!("{UI}/sign-in")).await;
    assert!(asked.header("refresh").is_empty(), "{asked:?}");
}

async fn a_refused_renewal_ends_the_session(store: Store) {
    let app = store.app_with(renewing).await;
    // A token that is used twice ends its session, on a page as on the refresh route.
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let copied = ada.cookies[REFRESH].clone();
    for _ in 0..2 {
        let form = ada.csrf("/security").await;
        app.advance(960).await;
        assert_eq!(
            ada.post("/sessions/end-others", &[("csrf", &form)])
                .await
                .header("location"),
            "/auth/ui/sessions?done=sessions"
        );
    }
    let open = ada.csrf("/security").await;
    ada.cookies.insert(REFRESH.to_owned(), copied);
    ada.cookies.remove(TOKEN);
    assert_eq!(ada.get("/security").await.header("location"), SIGN_IN);
    assert!(
        !ada.cookies.contains_key(REFRESH),
        "a token that can never be valid again is cleared"
    );
    assert_eq!(
        ada.post("/sessions/end-others", &[("csrf", &open)])
            .await
            .header("location"),
        SIGN_IN
    );
    // The session of a suspended account, or of an invalid token, is not renewed.
    let mut bob = Visitor::new(&app);
    bob.sign_up("bob@example.test").await;
    let (root, me) = (
        app.admin("root2@example.test").await,
        app.me(&bob.cookies[TOKEN]).await.text("id"),
    );
    let suspended = app
        .with(
            &root.token,
            "POST",
            &format!("/auth/admin/users/{me}/suspend"),
            Some(json!({ "reason": "spam" })),
        )
        .await;
    assert_eq!(suspended.status, 200, "{suspended:?}");
    assert_eq!(bob.get("/security").await.header("location"), SIGN_IN);
    for token in ["x", "v1.a.b", &"v".repeat(5000)] {
        let mut eve = Visitor::new(&app);
        eve.cookies.insert(REFRESH.to_owned(), token.to_owned());
        assert_eq!(
            eve.get("/security").await.header("location"),
            SIGN_IN,
            "{token}"
        );
    }
    // Without refresh tokens, a form of an expired session redirects to the sign-in page, too.
    app.stop().await;
    let app = store.app_with(with_admin).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("carol@example.test").await;
    let open = ada.csrf("/security").await;
    app.advance(604_801).await;
    assert_eq!(
        ada.post("/security/password", &[("csrf", &open), ("password", "x")])
            .await
            .header("location"),
        SIGN_IN
    );
    assert_eq!(audited_forgeries(&app).await, 0);
}

async fn a_forged_form_renews_nothing(store: Store) {
    let app = store.app_with(renewing).await;
    let (mut ada, mut eve) = (Visitor::new(&app), Visitor::new(&app));
    ada.sign_up("ada@example.test").await;
    eve.sign_up("eve@example.test").await;
    let (own, eve_form, before) = (
        ada.csrf("/security").await,
        eve.csrf("/security").await,
        ada.cookies[REFRESH].clone(),
    );
    app.advance(960).await;
    for (origin, csrf) in [
        ("https://evil.test", own.as_str()),
        ("", eve_form.as_str()),
        ("", "session.a.b"),
        ("", ""),
    ] {
        let ours = format!("http://{}", app.host());
        let reply = ada
            .post_from(
                if origin.is_empty() { &ours } else { origin },
                "/sign-out",
                &[("csrf", csrf)],
            )
            .await;
        assert_eq!(
            (reply.status, &ada.cookies[REFRESH]),
            (403, &before),
            "{origin} {csrf}"
        );
    }
    // Credentials that a client sends in headers have priority over the browser's cookies.
    let headers = [
        ("authorization", "Bearer x"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    assert_eq!(
        ada.send(
            "POST",
            &format!("{UI}/sessions/end-others"),
            &headers,
            &form(&[("csrf", &own)])
        )
        .await
        .status,
        303
    );
    assert_eq!(ada.cookies[REFRESH], before);
    assert_eq!(
        audited_forgeries(&app).await,
        1,
        "equal refusals are audited once in a window"
    );
    assert!(ada.is_signed_in().await);
}

/// A sibling domain can set cookies, but not `__Host-` cookies of this host.
async fn a_planted_refresh_token_is_ignored(store: Store) {
    let app = store.app_with(renewing).await;
    let (mut ada, mut eve) = (Visitor::new(&app), Visitor::new(&app));
    eve.sign_up("eve@example.test").await;
    let planted = eve.cookies[REFRESH].clone();
    ada.cookies.insert(REFRESH.to_owned(), planted.clone());
    let asked = ada.get("/sign-in?returnTo=/app").await;
    assert!(
        asked.status == 200 && !ada.cookies.contains_key(TOKEN),
        "{}",
        text(&asked)
    );
    // The cookie that binds a token to its session is valid for that session only.
    ada.cookies.remove(REFRESH);
    ada.sign_up("ada@example.test").await;
    let own = ada.cookies.insert(REFRESH.to_owned(), planted).unwrap();
    ada.cookies.remove(TOKEN);
    assert_eq!(ada.get("/sign-in?returnTo=/app").await.status, 200);
    assert!(!ada.cookies.contains_key(TOKEN));
    // A second cookie of the same name has no effect.
    ada.cookies
        .insert(REFRESH.to_owned(), format!("{own}; {REFRESH}=x"));
    let reply = ada
        .send(
            "POST",
            "/auth/refresh",
            &[("content-type", "application/json")],
            "{}",
        )
        .await;
    reply.refused(403, "csrf_failed");
    assert!(reply.headers.get("set-cookie").is_none(), "{reply:?}");
    ada.cookies.insert(REFRESH.to_owned(), own);
    assert_eq!(
        ada.get("/sign-in?returnTo=/app").await.header("location"),
        "/app"
    );
}

/// Signing out succeeds even if the session can no longer be renewed.
async fn sign_out_works_without_a_renewal(store: Store) {
    let post = Post::default();
    let verified = |auth: Auth| {
        renewing(post.on(auth)).configure(|config| {
            config.auth.email_verification.enabled = true;
            config.auth.email_verification.required = true;
            config.auth.email_verification.link_base_url = Some("https://app.test/verify".into());
        })
    };
    let app = store.app_with(verified).await;
    let mut ada = Visitor::new(&app);
    ada.fill(
        "/register",
        "/register",
        &[("identifier", "ada@example.test"), ("password", GOOD)],
    )
    .await;
    let proof = json!({ "token": post.token("verify_email", 1).await });
    assert_eq!(app.post("/auth/verify-email", proof).await.status, 200);
    assert_eq!(ada.sign_in("ada@example.test", GOOD).await.status, 303);
    let id = app.me(&ada.cookies[TOKEN]).await.text("id");
    app.change(&id, json!({ "emailVerified": false })).await;
    let (open, refresh) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
    app.advance(960).await;
    assert_eq!(
        ada.post("/sessions/end-others", &[("csrf", &open)])
            .await
            .header("location"),
        SIGN_IN
    );
    let out = ada.post("/sign-out", &[("csrf", &open)]).await;
    assert_eq!(out.status, 303);
    assert!(
        !ada.cookies.contains_key(REFRESH) && !ada.cookies.contains_key("__Host-renews"),
        "{:?}",
        ada.cookies
    );
    app.post("/auth/refresh", json!({ "refreshToken": refresh }))
        .await
        .refused(401, "refresh_invalid");
}

async fn two_windows_renew_one_session(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    app.advance(960).await;
    let mut other = Visitor::new(&app);
    other.cookies = ada.cookies.clone();
    let (one, two) = tokio::join!(ada.get("/security"), other.get("/sessions"));
    assert_eq!((one.status, two.status), (200, 200));
    assert_eq!(ada.cookies[REFRESH], other.cookies[REFRESH]);
    assert!(ada.is_signed_in().await && other.is_signed_in().await);
}

/// A user who shares a client address with an attacker who tries tokens can still sign in and read
/// public pages.
async fn a_full_refresh_limit_of_an_address_does_not_lock_users_out(store: Store) {
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
    let open = ada.csrf("/security").await;
    app.advance(960).await;
    app.post("/auth/refresh", json!({ "refreshToken": "v1.a.b" }))
        .await
        .refused(401, "refresh_invalid");
    let before = ada.cookies.clone();
    let sign_in_page = ada.get("/sign-in").await;
    assert!(
        sign_in_page.status == 200 && hidden(&sign_in_page, "csrf").is_some(),
        "{}",
        text(&sign_in_page)
    );
    assert_eq!(ada.get("/security").await.header("location"), SIGN_IN);
    // The form was not executed, and the page says so.
    let form = ada.post("/sessions/end-others", &[("csrf", &open)]).await;
    assert!(
        form.status == 429 && !form.header("retry-after").is_empty(),
        "{}",
        text(&form)
    );
    assert_eq!(
        ada.cookies[REFRESH], before[REFRESH],
        "a token that may be valid later is kept"
    );
    app.advance(61).await;
    assert!(ada.is_signed_in().await);
}

/// A store that refuses all statements on sessions after the first write to a session.
#[derive(Clone, Default)]
struct FailingStore(Arc<AtomicUsize>);

impl FailingStore {
    const ARMED: usize = 1;
    const FAILED: usize = 2;
}

impl Watch for FailingStore {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        if to.entity.name == "Session" {
            if self.0.load(Ordering::SeqCst) == Self::FAILED {
                return Answer::Ready(Err(Error::unavailable(
                    "the test makes this statement fail",
                )));
            }
            if !matches!(to.plan, Plan::Select { .. }) {
                let _ = self.0.compare_exchange(
                    Self::ARMED,
                    Self::FAILED,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
            }
        }
        store.run(to, args, rows)
    }
}

/// The browser keeps the renewed token even if the page fails. Otherwise it would send its earlier
/// token again, and the app would treat that as the use of a stolen token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_token_is_kept_if_the_page_fails() {
    let failing_store = FailingStore::default();
    let app = Store::memory()
        .on(
            Around::new(Arc::new(Memory::new()), failing_store.clone()),
            renewing,
        )
        .await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (open, before) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
    app.advance(960).await;
    failing_store.0.store(FailingStore::ARMED, Ordering::SeqCst);
    let failed = ada
        .may_fail("/sessions/end-others", &[("csrf", &open)])
        .await;
    assert_eq!(
        (failed.status, failing_store.0.load(Ordering::SeqCst)),
        (503, FailingStore::FAILED),
        "{}",
        text(&failed)
    );
    assert_ne!(ada.cookies[REFRESH], before);
    failing_store.0.store(0, Ordering::SeqCst);
    // Advance past the time in which the previous token is still accepted.
    app.advance(960).await;
    assert!(ada.is_signed_in().await);
}

async fn the_requested_page_and_notices_survive_a_renewal(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    // After the sign-in the user returns to the requested page, with its query.
    let asked = ada
        .get("/sessions?done=session&x=%26")
        .await
        .header("location");
    assert_eq!(
        asked,
        "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsessions%3Fdone%3Dsession%26x%3D%2526"
    );
    ada.sign_up("ada@example.test").await;
    assert_eq!(
        ada.get(&asked["/auth/ui".len()..]).await.header("location"),
        "/auth/ui/sessions?done=session&x=%26"
    );
    // The message of a provider's redirect is shown to the user who is signed in.
    app.advance(960).await;
    for (word, value) in [("failed", "access_denied"), ("done", "linked")] {
        let on = ada
            .get(&format!("/sign-in?{word}={value}"))
            .await
            .header("location");
        assert_eq!(on, format!("/auth/ui/security?{word}={value}"));
    }
    let page = text(&ada.get("/security?failed=access_denied").await);
    assert!(
        page.contains("role=\"alert\">You did not give permission at the provider"),
        "{page}"
    );
    // A link from another site to the sign-up page renews the session too, with one redirect.
    app.advance(960).await;
    let refresh_token = ada.cookies.remove(REFRESH).unwrap();
    ada.cookies.remove(TOKEN);
    let on = ada.sent_back(&format!("{UI}/register?returnTo=/app")).await;
    let to = "/register?returnTo=/app&again=yes";
    assert_eq!(
        (on.status, on.header("refresh")),
        (200, format!("0; url={UI}{to}")),
        "{}",
        text(&on)
    );
    ada.cookies.insert(REFRESH.to_owned(), refresh_token);
    assert_eq!(ada.follow(to).await.header("location"), "/app");
}

/// If the path of the cookies does not contain the pages, the pages are off. If the app requests
/// them nevertheless, start-up fails and names the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_outside_of_the_cookie_path_are_off() {
    let store = Store::memory();
    for (path, has_pages) in [
        ("/", true),
        ("/auth", true),
        ("/auth/", true),
        ("/auth/ui", true),
        ("/auth/u", false),
        ("/app", false),
    ] {
        let with_pages = |enabled: Option<bool>| {
            move |auth: Auth| {
                auth.configure(move |config| {
                    config.auth.cookies.path = path.to_owned();
                    config.auth.pages.enabled = enabled;
                })
            }
        };
        let app = store.app_with(with_pages(None)).await;
        assert_eq!(
            app.any("GET", &format!("{UI}/sign-in"), &[], "")
                .await
                .status,
            if has_pages { 200 } else { 404 },
            "{path}"
        );
        app.stop().await;
        match store.try_app(with_pages(Some(true))).await {
            Ok(app) => {
                assert!(has_pages, "{path}");
                app.stop().await;
            }
            Err(error) => {
                let message = format!("{error:?}");
                assert!(
                    !has_pages
                        && message.contains("auth.cookies.path")
                        && message.contains("/auth/ui"),
                    "{path}: {message}"
                );
            }
        }
    }
}
