//! Passwords: change and reset.

use std::sync::{Arc, Mutex};

use linchpin::{BoxFuture, Result};
use linchpin_auth::{BreachChecker, BreachOnError, OnPasswordChange};
use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, SignedIn, Store};

cases! {
    every_store:
        a_password_change_needs_the_current_password, wrong_current_passwords_are_limited,
        a_password_change_may_replace_all_sessions, former_passwords_are_refused,
        forgotten_passwords_do_not_reveal_accounts,
        forgotten_passwords_are_limited_silently_per_identifier,
        a_reset_sets_the_password_and_ends_sessions,
        a_reset_token_works_once_in_concurrent_requests,
        a_refused_reset_keeps_its_token_and_a_newer_one_ends_it;
    one_store: breached_passwords_are_refused;
}

const NEW: &str = "amber-walrus-17-dune";

async fn set_password(
    app: &Server,
    who: &SignedIn,
    body: serde_json::Value,
) -> crate::server::Reply {
    app.with(&who.token, "POST", "/auth/set-password", Some(body))
        .await
}

async fn login(app: &Server, email: &str, password: &str) -> u16 {
    app.post(
        "/auth/login",
        json!({ "email": email, "password": password }),
    )
    .await
    .status
}

async fn a_password_change_needs_the_current_password(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let me = app.register("a@x.test").await;
    let other = app.login("a@x.test").await;
    set_password(&app, &me, json!({ "password": NEW }))
        .await
        .refused(400, "current_password_required");
    for wrong in ["nope-nope-nope", "", &"x".repeat(200)] {
        set_password(
            &app,
            &me,
            json!({ "password": NEW, "currentPassword": wrong }),
        )
        .await
        .refused(401, "invalid_credentials");
    }
    for (bad, code) in [
        ("password123", "password_too_common"),
        ("short", "validation_failed"),
        ("a@x.test1", "password_too_common"),
    ] {
        set_password(
            &app,
            &me,
            json!({ "password": bad, "currentPassword": GOOD }),
        )
        .await
        .refused(400, code);
    }
    assert_eq!(
        app.me(&other.token).await.status,
        200,
        "a refused change ends no session"
    );

    let done = set_password(
        &app,
        &me,
        json!({ "password": NEW, "currentPassword": GOOD }),
    )
    .await;
    assert_eq!(
        (done.status, done.json()),
        (
            200,
            json!({ "ok": true, "message": "The password was set." })
        )
    );
    app.me(&other.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&me.token).await.status, 200);
    assert_eq!(
        (
            login(&app, "a@x.test", GOOD).await,
            login(&app, "a@x.test", NEW).await
        ),
        (401, 200)
    );
    let mails = post.all("password_changed", 1).await;
    assert_eq!((mails.len(), mails[0].to.as_str()), (1, "a@x.test"));
    app.post("/auth/set-password", json!({ "password": NEW }))
        .await
        .refused(401, "unauthorized");
}

async fn wrong_current_passwords_are_limited(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    for _ in 0..10 {
        set_password(
            &app,
            &me,
            json!({ "password": NEW, "currentPassword": "nope-nope-nope" }),
        )
        .await
        .refused(401, "invalid_credentials");
    }
    let limited = set_password(
        &app,
        &me,
        json!({ "password": NEW, "currentPassword": GOOD }),
    )
    .await;
    limited.refused(429, "rate_limited");
    assert_eq!(limited.header("retry-after"), "900");
    app.advance(900).await;
    assert_eq!(
        set_password(
            &app,
            &me,
            json!({ "password": NEW, "currentPassword": GOOD })
        )
        .await
        .status,
        200
    );
}

async fn a_password_change_may_replace_all_sessions(store: Store) {
    let reissue = |auth: linchpin_auth::Auth| {
        auth.refresh_tokens().configure(|config| {
            config.auth.session.on_password_change = OnPasswordChange::RevokeAllAndReissue;
        })
    };
    let app = store.app_with(reissue).await;
    let me = app.register("a@x.test").await;
    let other = app.login("a@x.test").await;
    let done = set_password(
        &app,
        &me,
        json!({ "password": NEW, "currentPassword": GOOD }),
    )
    .await;
    assert_eq!((done.status, done.json()["ok"].clone()), (200, json!(true)));
    let reissued = done.signed_in();
    assert!(!reissued.token.is_empty() && done.cookie("__Host-token").is_some());
    for old in [&me, &other] {
        app.me(&old.token).await.refused(401, "unauthorized");
        let refresh = app
            .post("/auth/refresh", json!({ "refreshToken": old.refresh }))
            .await;
        assert_eq!(
            (refresh.status, refresh.text("code").as_str()),
            (401, "refresh_invalid")
        );
    }
    assert_eq!(app.me(&reissued.token).await.status, 200);
    assert_eq!(
        app.post("/auth/refresh", json!({ "refreshToken": reissued.refresh }))
            .await
            .status,
        200
    );
}

async fn former_passwords_are_refused(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.password.history_count = 3))
        .await;
    let me = app.register("a@x.test").await;
    let nth = |n: usize| format!("violet-otter-{n}-lamp");
    let mut current = GOOD.to_owned();
    for n in 1..=4 {
        let done = set_password(
            &app,
            &me,
            json!({ "password": nth(n), "currentPassword": current }),
        )
        .await;
        assert_eq!(done.status, 200, "{done:?}");
        current = nth(n);
    }
    // The current password and the three before it are refused. The one before these is accepted.
    for n in [4, 3, 2, 1] {
        set_password(
            &app,
            &me,
            json!({ "password": nth(n), "currentPassword": current }),
        )
        .await
        .refused(400, "password_reused");
    }
    assert_eq!(
        set_password(
            &app,
            &me,
            json!({ "password": GOOD, "currentPassword": current })
        )
        .await
        .status,
        200
    );
}

/// A checker that knows one breached password and records its calls.
#[derive(Clone, Default)]
struct Stub {
    calls: Arc<Mutex<Vec<(String, String)>>>,
    broken: Arc<Mutex<bool>>,
}

/// SHA-1 of `seen-in-a-breach-77`.
const BREACHED_SHA1: &str = "AE113BFA15331702CBAB06B2B788240284BFEE7A";

impl BreachChecker for Stub {
    fn is_breached<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.calls
            .lock()
            .unwrap()
            .push((prefix.to_owned(), suffix.to_owned()));
        let broken = *self.broken.lock().unwrap();
        Box::pin(async move {
            if broken {
                Err(linchpin::Error::unavailable(
                    "the test makes this check fail",
                ))
            } else {
                Ok(format!("{prefix}{suffix}") == BREACHED_SHA1)
            }
        })
    }
}

async fn breached_passwords_are_refused(store: Store) {
    let (post, stub) = (Post::default(), Stub::default());
    let with = |on_error: BreachOnError| {
        let (post, stub) = (post.clone(), stub.clone());
        move |auth: linchpin_auth::Auth| {
            post.on(auth).configure(|config| {
                config.auth.password.breach_checker = Some(Arc::new(stub));
                config.auth.password.breach_on_error = on_error;
            })
        }
    };
    let app = store.app_with(with(BreachOnError::Allow)).await;
    let breached = "seen-in-a-breach-77";
    app.post(
        "/auth/register",
        json!({ "email": "a@x.test", "password": breached }),
    )
    .await
    .refused(400, "password_breached");
    let me = app.register("a@x.test").await;
    set_password(
        &app,
        &me,
        json!({ "password": breached, "currentPassword": GOOD }),
    )
    .await
    .refused(400, "password_breached");
    app.post("/auth/forgot-password", json!({ "email": "a@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    app.post(
        "/auth/reset-password",
        json!({ "token": token, "password": breached }),
    )
    .await
    .refused(400, "password_breached");
    assert!(
        stub.calls
            .lock()
            .unwrap()
            .iter()
            .all(|(prefix, _)| prefix.len() == 5)
    );
    *stub.broken.lock().unwrap() = true;
    assert_eq!(
        set_password(
            &app,
            &me,
            json!({ "password": NEW, "currentPassword": GOOD })
        )
        .await
        .status,
        200
    );
    app.stop().await;

    let app = store.app_with(with(BreachOnError::Refuse)).await;
    let refused = app
        .raw_any(
            "/auth/register",
            json!({ "email": "b@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (refused.status, refused.text("code").as_str()),
        (503, "unavailable")
    );
}

async fn forgotten_passwords_do_not_reveal_accounts(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    app.register("a@x.test").await;
    let unknown = app
        .post("/auth/forgot-password", json!({ "email": "nobody@x.test" }))
        .await;
    let known = app
        .post("/auth/forgot-password", json!({ "email": " A@X.test " }))
        .await;
    assert_eq!((known.status, &known.body), (200, &unknown.body));
    let names = |reply: &crate::server::Reply| {
        reply
            .headers
            .keys()
            .map(ToString::to_string)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&known), names(&unknown));
    let token = post.token("password_reset", 1).await;
    assert_eq!(token.len(), 43);
    let mails = post.all("password_reset", 1).await;
    assert_eq!((mails.len(), mails[0].to.as_str()), (1, "a@x.test"));
    assert!(mails[0].vars["link"].starts_with("https://app.test/reset#token="));
    app.post("/auth/forgot-password", json!({ "email": "x" }))
        .await
        .problem("format", "email");
    app.post(
        "/auth/forgot-password",
        json!({ "email": "a@x.test", "extra": 1 }),
    )
    .await
    .problem("unknown_field", "extra");
}

async fn forgotten_passwords_are_limited_silently_per_identifier(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    app.register("a@x.test").await;
    for n in 1..=10 {
        let reply = app
            .post("/auth/forgot-password", json!({ "email": "a@x.test" }))
            .await;
        assert_eq!(reply.status, 200);
        if n <= 3 {
            post.token("password_reset", n).await;
        }
        app.advance(1).await;
    }
    // The limit per client address (ten requests) is reported.
    app.post("/auth/forgot-password", json!({ "email": "a@x.test" }))
        .await
        .refused(429, "rate_limited");
    // Wait until all ten requests are processed: the next two mails are sent in later rounds of the
    // queue. Over the limit, a request sends a mail only if no valid link exists. So a request that
    // is processed after the reset would send a fourth mail.
    for n in 1..=2 {
        let other = app.register(&format!("other{n}@x.test")).await;
        let change = json!({ "password": NEW, "currentPassword": GOOD });
        assert_eq!(
            app.with(&other.token, "POST", "/auth/set-password", Some(change))
                .await
                .status,
            200
        );
        post.all("password_changed", n).await;
    }
    // The latest mailed link is still valid.
    let token = post.token("password_reset", 3).await;
    assert_eq!(
        app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": NEW })
        )
        .await
        .status,
        200
    );
    post.all("password_reset_done", 1).await;
    assert_eq!(post.count("password_reset"), 3);
}

async fn reset_token(app: &Server, post: &Post, nth: usize) -> String {
    assert_eq!(
        app.post("/auth/forgot-password", json!({ "email": "a@x.test" }))
            .await
            .status,
        200
    );
    post.token("password_reset", nth).await
}

async fn a_reset_sets_the_password_and_ends_sessions(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let me = app.register("a@x.test").await;
    let token = reset_token(&app, &post, 1).await;
    let done = app
        .post(
            "/auth/reset-password",
            json!({ "token": token, "password": NEW }),
        )
        .await;
    assert_eq!(
        (done.status, done.json()),
        (
            200,
            json!({ "ok": true, "message": "The password was set. Sign in with it." })
        )
    );
    assert!(
        done.headers.get("set-cookie").is_none(),
        "a reset opens no session"
    );
    app.me(&me.token).await.refused(401, "unauthorized");
    assert_eq!(
        (
            login(&app, "a@x.test", GOOD).await,
            login(&app, "a@x.test", NEW).await
        ),
        (401, 200)
    );
    app.post(
        "/auth/reset-password",
        json!({ "token": token, "password": NEW }),
    )
    .await
    .refused(400, "invalid_token");
    let me = app
        .post(
            "/auth/login",
            json!({ "email": "a@x.test", "password": NEW }),
        )
        .await
        .signed_in();
    assert_eq!(app.me(&me.token).await.json()["emailVerified"], true);
    post.all("password_reset_done", 1).await;

    let late = reset_token(&app, &post, 2).await;
    app.advance(1801).await;
    app.post(
        "/auth/reset-password",
        json!({ "token": late, "password": GOOD }),
    )
    .await
    .refused(400, "invalid_token");
    for hostile in ["", "x", &"A".repeat(43), &"A".repeat(60_000)] {
        app.post(
            "/auth/reset-password",
            json!({ "token": hostile, "password": GOOD }),
        )
        .await
        .refused(400, "invalid_token");
    }
}

async fn a_reset_token_works_once_in_concurrent_requests(store: Store) {
    let (store, post) = (store.hashing_slowly(), Post::default());
    let limits =
        |auth: linchpin_auth::Auth| auth.configure(|config| config.auth.rate_limit.enabled = false);
    let app = Arc::new(store.app_with(|auth| limits(post.on(auth))).await);
    app.register("a@x.test").await;
    let token = reset_token(&app, &post, 1).await;
    let tries = (0..50).map(|n| {
        let (app, body) = (
            app.clone(),
            json!({ "token": token, "password": format!("violet-otter-{n}-lamp") }),
        );
        tokio::spawn(async move { app.raw_any("/auth/reset-password", body).await })
    });
    let mut done = Vec::new();
    for (n, reply) in tries.collect::<Vec<_>>().into_iter().enumerate() {
        let reply = reply.await.unwrap();
        // Calls are refused if the queue of hashes is full, or if another call used the token.
        assert!(
            matches!(
                (reply.status, reply.text("code").as_str()),
                (200, "") | (400, "invalid_token") | (409, "conflict") | (503, "unavailable")
            ),
            "{reply:?}"
        );
        done.extend((reply.status == 200).then_some(n));
    }
    assert_eq!(done.len(), 1);
    assert_eq!(
        login(&app, "a@x.test", &format!("violet-otter-{}-lamp", done[0])).await,
        200
    );
}

async fn a_refused_reset_keeps_its_token_and_a_newer_one_ends_it(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    app.register("a@x.test").await;
    let first = reset_token(&app, &post, 1).await;
    app.post(
        "/auth/reset-password",
        json!({ "token": first, "password": "password123" }),
    )
    .await
    .refused(400, "password_too_common");
    app.advance(1).await;
    let second = reset_token(&app, &post, 2).await;
    assert_ne!(first, second);
    app.post(
        "/auth/reset-password",
        json!({ "token": first, "password": NEW }),
    )
    .await
    .refused(400, "invalid_token");
    app.post(
        "/auth/reset-password",
        json!({ "token": second, "password": "password123" }),
    )
    .await
    .refused(400, "password_too_common");
    assert_eq!(
        app.post(
            "/auth/reset-password",
            json!({ "token": second, "password": NEW })
        )
        .await
        .status,
        200
    );
    assert_eq!(login(&app, "a@x.test", NEW).await, 200);
}
