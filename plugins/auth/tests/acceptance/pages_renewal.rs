//! Sessions that are renewed while pages are open, and forms that were open meanwhile.

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
        a_session_goes_on, two_windows, strangers_use_up_the_address, forms_that_stayed_open,
        no_session_to_go_on_with;
    one_store:
        a_forged_form_renews_nothing, a_link_from_elsewhere, a_planted_token,
        what_was_asked_and_said_on_the_way, leaving_without_a_renewal;
}

const TOKEN: &str = "__Host-token";
/// The redirect for a visitor without a session.
const ASKED: &str = "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsecurity";
const REFRESH: &str = "__Secure-refresh_token";

/// Sessions that are renewed every quarter of an hour, and an administrator who may read the audit.
fn renewing(auth: Auth) -> Auth {
    with_admin(auth.refresh_tokens())
}

fn with_admin(auth: Auth) -> Auth {
    auth.configure(|config| config.auth.admin_role = Some("admin".into()))
}

/// How many requests were taken for forged ones.
async fn forged(app: &Server) -> usize {
    let root = app.admin("root@example.test").await;
    let audit = app
        .get(&root.token, "/auth/admin/audit?event=auth:csrf.failed")
        .await;
    assert_eq!(audit.status, 200, "{audit:?}");
    audit.json()["items"].as_array().unwrap().len()
}

async fn a_session_goes_on(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (first, before) = (ada.cookies[TOKEN].clone(), ada.cookies[REFRESH].clone());
    assert_eq!(ada.get("/security").await.status, 200);
    assert_eq!(
        ada.cookies[REFRESH], before,
        "what is good still is not renewed"
    );
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
    // A page of the app that sends people here to sign in has them back at once. The browser drops
    // a token that is over by itself.
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

async fn forms_that_stayed_open(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    let of_nobody = ada.csrf("/sign-in").await;
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
    // Nor does it matter that the user has confirmed their identity in between.
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
    // One that was opened before they signed in leads on, and does nothing.
    let typed = [
        ("csrf", of_nobody.as_str()),
        ("identifier", "ada@example.test"),
        ("password", GOOD),
    ];
    for path in ["/sign-in", "/register"] {
        let on = ada
            .post(path, &[typed[0], typed[1], typed[2], ("returnTo", "/app")])
            .await;
        assert_eq!(
            (on.status, on.header("location").as_str()),
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
    assert_eq!(forged(&app).await, 0);
}

/// Strict cookies stay at home when another site sends the browser here.
async fn a_link_from_elsewhere(store: Store) {
    let app = store.app_with(renewing).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    app.advance(960).await;
    let at_home = ada.cookies.remove(REFRESH).unwrap();
    ada.cookies.remove(TOKEN);
    let path = "/sign-in?returnTo=/app%3Fa=b";
    let on = ada.sent_back(&format!("{UI}{path}")).await;
    let to = format!("{UI}{path}&again=yes");
    assert_eq!(
        (on.status, on.header("refresh")),
        (200, format!("0; url={to}")),
        "{}",
        text(&on)
    );
    assert!(
        text(&on).contains("href=\"/auth/ui/sign-in?returnTo=/app%3Fa=b&amp;again=yes\""),
        "{}",
        text(&on)
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
    ada.cookies.insert(REFRESH.to_owned(), at_home);
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

async fn no_session_to_go_on_with(store: Store) {
    let app = store.app_with(renewing).await;
    // A token that came twice ends its session, on a page as on its route.
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
    assert_eq!(ada.get("/security").await.header("location"), ASKED);
    assert!(
        !ada.cookies.contains_key(REFRESH),
        "what can never be right again is not kept"
    );
    assert_eq!(
        ada.post("/sessions/end-others", &[("csrf", &open)])
            .await
            .header("location"),
        ASKED
    );
    // Nor for a suspended account, or with an invalid token.
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
    assert_eq!(bob.get("/security").await.header("location"), ASKED);
    for token in ["x", "v1.a.b", &"v".repeat(5000)] {
        let mut eve = Visitor::new(&app);
        eve.cookies.insert(REFRESH.to_owned(), token.to_owned());
        assert_eq!(
            eve.get("/security").await.header("location"),
            ASKED,
            "{token}"
        );
    }
    // Without refresh tokens, a form of an expired session asks to sign in as well.
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
        ASKED
    );
    assert_eq!(forged(&app).await, 0);
}

async fn a_forged_form_renews_nothing(store: Store) {
    let app = store.app_with(renewing).await;
    let (mut ada, mut eve) = (Visitor::new(&app), Visitor::new(&app));
    ada.sign_up("ada@example.test").await;
    eve.sign_up("eve@example.test").await;
    let (own, of_eve, before) = (
        ada.csrf("/security").await,
        eve.csrf("/security").await,
        ada.cookies[REFRESH].clone(),
    );
    app.advance(960).await;
    for (origin, csrf) in [
        ("https://evil.test", own.as_str()),
        ("", of_eve.as_str()),
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
        forged(&app).await,
        1,
        "the same is written down once in a while"
    );
    assert!(ada.is_signed_in().await);
}

/// A sibling domain can set cookies, but none that are for this host alone.
async fn a_planted_token(store: Store) {
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
async fn leaving_without_a_renewal(store: Store) {
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
        ASKED
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

async fn two_windows(store: Store) {
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

/// A user who shares an address with an attacker who tries tokens can still sign in and read public
/// pages.
async fn strangers_use_up_the_address(store: Store) {
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
    let open = ada.csrf("/security").await;
    app.advance(960).await;
    app.post("/auth/refresh", json!({ "refreshToken": "v1.a.b" }))
        .await
        .refused(401, "refresh_invalid");
    let before = ada.cookies.clone();
    let asked = ada.get("/sign-in").await;
    assert!(
        asked.status == 200 && hidden(&asked, "csrf").is_some(),
        "{}",
        text(&asked)
    );
    assert_eq!(ada.get("/security").await.header("location"), ASKED);
    // The form was not executed, and the page says so.
    let form = ada.post("/sessions/end-others", &[("csrf", &open)]).await;
    assert!(
        form.status == 429 && !form.header("retry-after").is_empty(),
        "{}",
        text(&form)
    );
    assert_eq!(
        ada.cookies[REFRESH], before[REFRESH],
        "what may be right later is kept"
    );
    app.advance(61).await;
    assert!(ada.is_signed_in().await);
}

/// A store that answers nothing more about sessions once one of them was written.
#[derive(Clone, Default)]
struct Faltering(Arc<AtomicUsize>);

impl Faltering {
    const ARMED: usize = 1;
    const FALLEN: usize = 2;
}

impl Watch for Faltering {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        if to.entity.name == "Session" {
            if self.0.load(Ordering::SeqCst) == Self::FALLEN {
                return Answer::Ready(Err(Error::unavailable("told to")));
            }
            if !matches!(to.plan, Plan::Select { .. }) {
                let _ = self.0.compare_exchange(
                    Self::ARMED,
                    Self::FALLEN,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
            }
        }
        store.run(to, args, rows)
    }
}

/// The browser keeps the renewed token even if the page fails: its earlier token would be taken for
/// a stolen one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_fails_behind_a_renewal() {
    let faltering = Faltering::default();
    let app = Store::memory()
        .on(
            Around::new(Arc::new(Memory::new()), faltering.clone()),
            renewing,
        )
        .await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (open, before) = (ada.csrf("/security").await, ada.cookies[REFRESH].clone());
    app.advance(960).await;
    faltering.0.store(Faltering::ARMED, Ordering::SeqCst);
    let failed = ada
        .may_fail("/sessions/end-others", &[("csrf", &open)])
        .await;
    assert_eq!(
        (failed.status, faltering.0.load(Ordering::SeqCst)),
        (503, Faltering::FALLEN),
        "{}",
        text(&failed)
    );
    assert_ne!(ada.cookies[REFRESH], before);
    faltering.0.store(0, Ordering::SeqCst);
    // After the time in which the previous token is still accepted.
    app.advance(960).await;
    assert!(ada.is_signed_in().await);
}

async fn what_was_asked_and_said_on_the_way(store: Store) {
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
    let told = text(&ada.get("/security?failed=access_denied").await);
    assert!(
        told.contains("role=\"alert\">You did not give permission at the provider"),
        "{told}"
    );
    // A link from another site to the page that makes accounts finds the session as well, once.
    app.advance(960).await;
    let at_home = ada.cookies.remove(REFRESH).unwrap();
    ada.cookies.remove(TOKEN);
    let on = ada.sent_back(&format!("{UI}/register?returnTo=/app")).await;
    let to = "/register?returnTo=/app&again=yes";
    assert_eq!(
        (on.status, on.header("refresh")),
        (200, format!("0; url={UI}{to}")),
        "{}",
        text(&on)
    );
    ada.cookies.insert(REFRESH.to_owned(), at_home);
    assert_eq!(ada.follow(to).await.header("location"), "/app");
}

/// Without cookies for the path of the pages, there are no pages unless the app requests them; then
/// start-up says why not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_cookies_do_not_reach() {
    let store = Store::memory();
    for (path, reached) in [
        ("/", true),
        ("/auth", true),
        ("/auth/", true),
        ("/auth/ui", true),
        ("/auth/u", false),
        ("/app", false),
    ] {
        let at = |enabled: Option<bool>| {
            move |auth: Auth| {
                auth.configure(move |config| {
                    config.auth.cookies.path = path.to_owned();
                    config.auth.pages.enabled = enabled;
                })
            }
        };
        let app = store.app_with(at(None)).await;
        assert_eq!(
            app.any("GET", &format!("{UI}/sign-in"), &[], "")
                .await
                .status,
            if reached { 200 } else { 404 },
            "{path}"
        );
        app.stop().await;
        match store.try_app(at(Some(true))).await {
            Ok(app) => {
                assert!(reached, "{path}");
                app.stop().await;
            }
            Err(error) => {
                let told = format!("{error:?}");
                assert!(
                    !reached && told.contains("auth.cookies.path") && told.contains("/auth/ui"),
                    "{path}: {told}"
                );
            }
        }
    }
}
