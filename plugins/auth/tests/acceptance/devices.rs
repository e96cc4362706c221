//! Recognised devices, and guesses that do not lock the owner out.

use linchpin_auth::{Auth, Limit};
use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

cases! {
    every_store:
        a_device_is_recognised, a_device_cookie_belongs_to_one_user,
        a_known_device_has_its_own_limit,
        guesses_lock_the_password_and_not_its_owner, a_lockout_ends_after_the_guesses_stop,
        a_new_device_is_mailed_to_the_user;
    one_store: the_transport_decides_where_device_tokens_are_sent;
}

async fn login(app: &Server, password: &str, device: &str) -> Reply {
    let body = json!({ "email": "ada@x.test", "password": password }).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "case/1"),
        ("x-device-token", device),
    ];
    app.raw(
        "POST",
        "/auth/login",
        if device.is_empty() {
            &headers[..2]
        } else {
            &headers
        },
        &body,
    )
    .await
}

async fn a_device_is_recognised(store: Store) {
    let app = store.app().await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    let cookie = made.cookie("__Secure-device").unwrap();
    for attribute in [
        "HttpOnly",
        "Secure",
        "SameSite=Lax",
        "Path=/auth",
        "Max-Age=15552000",
    ] {
        assert!(cookie.contains(attribute), "{attribute} in {cookie}");
    }
    let token = made.text("deviceToken");
    assert_eq!(made.cookie_value("__Secure-device"), token);
    // A device that is recognised by header or cookie gets no new token. It is recognised for six
    // months after its last use.
    let again = login(&app, GOOD, &token).await;
    assert_eq!(
        (
            again.status,
            again.text("deviceToken"),
            again.cookie("__Secure-device")
        ),
        (200, String::new(), None)
    );
    let cookie = format!("__Secure-device={token}");
    let body = json!({ "email": "ada@x.test", "password": GOOD }).to_string();
    let by_cookie = app
        .raw(
            "POST",
            "/auth/login",
            &[("content-type", "application/json"), ("cookie", &cookie)],
            &body,
        )
        .await;
    assert_eq!(
        (by_cookie.status, by_cookie.text("deviceToken")),
        (200, String::new())
    );
    app.advance(179 * 86_400).await;
    assert_eq!(login(&app, GOOD, &token).await.text("deviceToken"), "");
    app.advance(179 * 86_400).await;
    assert_eq!(
        login(&app, GOOD, &token).await.text("deviceToken"),
        "",
        "the last use was updated"
    );
    app.advance(180 * 86_400).await;
    assert_ne!(login(&app, GOOD, &token).await.text("deviceToken"), "");
    for forged in [
        "x",
        "v1..",
        &token.replace("v1.", "v2."),
        &format!("{token}x"),
        &token[..token.len() - 2],
        &"y".repeat(5000),
    ] {
        let reply = login(&app, GOOD, forged).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_ne!(reply.text("deviceToken"), "", "{forged}");
    }
}

async fn a_device_cookie_belongs_to_one_user(store: Store) {
    let app = store.app().await;
    app.register("ada@x.test").await;
    let bob = app
        .post(
            "/auth/register",
            json!({ "email": "bob@x.test", "password": GOOD }),
        )
        .await
        .text("deviceToken");
    let ada = login(&app, GOOD, &bob).await.text("deviceToken");
    assert!(!ada.is_empty() && ada != bob);
    assert_eq!(login(&app, GOOD, &ada).await.text("deviceToken"), "");
}

fn low_limits(auth: Auth) -> Auth {
    auth.configure(|config| {
        let buckets = &mut config.auth.rate_limit.buckets;
        // All callers in this test have the same IP address as the owner.
        for name in ["login", "loginIp", "loginSpread"] {
            buckets.insert(
                name.to_owned(),
                Limit {
                    max: 1000,
                    window_seconds: 900,
                },
            );
        }
        buckets.insert(
            "loginIdentifier".to_owned(),
            Limit {
                max: 3,
                window_seconds: 3600,
            },
        );
        buckets.insert(
            "loginDevice".to_owned(),
            Limit {
                max: 2,
                window_seconds: 900,
            },
        );
        buckets.insert(
            "passwordLockout".to_owned(),
            Limit {
                max: 5,
                window_seconds: 1_000_000,
            },
        );
    })
}

const WRONG: &str = "wrong-otter-91-lamp";

async fn a_known_device_has_its_own_limit(store: Store) {
    let app = store.app_with(low_limits).await;
    let device = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await
        .text("deviceToken");
    for _ in 0..3 {
        login(&app, WRONG, "")
            .await
            .refused(401, "invalid_credentials");
    }
    login(&app, GOOD, "").await.refused(429, "rate_limited");
    // The owner's recognised device has a separate counter.
    assert_eq!(login(&app, GOOD, &device).await.status, 200);
    for _ in 0..2 {
        login(&app, WRONG, &device)
            .await
            .refused(401, "invalid_credentials");
    }
    let throttled = login(&app, GOOD, &device).await;
    throttled.refused(429, "rate_limited");
    assert!((1..=900).contains(&throttled.header("retry-after").parse::<u32>().unwrap()));
    app.advance(900).await;
    assert_eq!(login(&app, GOOD, &device).await.status, 200);
}

async fn guesses_lock_the_password_and_not_its_owner(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            low_limits(post.on(auth)).configure(|config| config.auth.magic_link.enabled = true)
        })
        .await;
    let device = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await
        .text("deviceToken");
    let guess = async |times: usize| {
        for _ in 0..times {
            login(&app, WRONG, "")
                .await
                .refused(401, "invalid_credentials");
        }
    };
    let lock = async |attack: usize| {
        guess(3).await;
        app.advance(3600).await;
        guess(2).await;
        // The owner gets one mail for each attack.
        post.only("password_under_attack", attack).await;
        let refused = login(&app, GOOD, "").await;
        refused.refused(429, "rate_limited");
        assert!(
            (1..=3600).contains(&refused.header("retry-after").parse::<u32>().unwrap()),
            "{refused:?}"
        );
        app.advance(86_400).await;
        login(&app, GOOD, "").await.refused(429, "rate_limited");
    };
    lock(1).await;
    // A sign-in on the owner's device works, and ends the lockout.
    assert_eq!(login(&app, GOOD, &device).await.status, 200);
    assert_eq!(login(&app, GOOD, "").await.status, 200);
    // A link and a new password also work.
    lock(2).await;
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let token = post.token("magic_link", 1).await;
    assert_eq!(
        app.post("/auth/magic-link/verify", json!({ "token": token }))
            .await
            .status,
        200
    );
    let new_password = "amber-walrus-17-dune";
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    // A link that verifies the mailbox for the first time removes the password; a reset sets one.
    app.post(
        "/auth/reset-password",
        json!({ "token": token, "password": GOOD }),
    )
    .await;
    assert_eq!(login(&app, GOOD, "").await.status, 200);
    lock(3).await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 2).await;
    assert_eq!(
        app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": new_password })
        )
        .await
        .status,
        200
    );
    assert_eq!(login(&app, new_password, "").await.status, 200);
    // An unknown identifier gives the same response.
    let unknown = async |times: usize, status: u16| {
        for _ in 0..times {
            let reply = app
                .post(
                    "/auth/login",
                    json!({ "email": "nobody@x.test", "password": WRONG }),
                )
                .await;
            assert_eq!(reply.status, status, "{reply:?}");
        }
    };
    unknown(3, 401).await;
    app.advance(3600).await;
    unknown(2, 401).await;
    app.advance(86_400).await;
    unknown(1, 429).await;
    app.stop().await;
}

/// Each wrong password is remembered for a limited time, so the lockout ends after the guesses
/// stop.
async fn a_lockout_ends_after_the_guesses_stop(store: Store) {
    const DAY: i64 = 86_400;
    let post = Post::default();
    let low_limits = |auth: Auth| {
        low_limits(post.on(auth)).configure(|config| {
            let buckets = &mut config.auth.rate_limit.buckets;
            buckets.insert(
                "loginIdentifier".to_owned(),
                Limit {
                    max: 1000,
                    window_seconds: 3600,
                },
            );
            buckets.insert(
                "passwordLockout".to_owned(),
                Limit {
                    max: 5,
                    window_seconds: 86_400,
                },
            );
        })
    };
    let app = store.app_with(low_limits).await;
    app.register("ada@x.test").await;
    for email in ["ada@x.test", "nobody@x.test"] {
        let guess = async |status: u16| {
            let reply = app
                .post("/auth/login", json!({ "email": email, "password": WRONG }))
                .await;
            assert_eq!(reply.status, status, "{email}: {reply:?}");
        };
        // One guess a day never locks the password, nor do four guesses followed by four days
        // without a guess.
        for _ in 0..7 {
            guess(401).await;
            app.advance(DAY).await;
        }
        for _ in 0..4 {
            guess(401).await;
        }
        app.advance(4 * DAY).await;
        for _ in 0..4 {
            guess(401).await;
        }
        app.advance(3 * DAY).await;
        guess(401).await;
        guess(429).await;
        // Guesses of an unknown account send no mail.
        post.only("password_under_attack", 1).await;
        // A refused attempt extends no lockout.
        app.advance(5 * DAY - 1).await;
        guess(429).await;
        app.advance(1).await;
        guess(401).await;
    }
}

async fn a_new_device_is_mailed_to_the_user(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let device = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await
        .text("deviceToken");
    login(&app, GOOD, &device).await;
    login(&app, GOOD, "").await;
    let mails = post.all("new_device_login", 1).await;
    assert_eq!(
        (
            mails.len(),
            mails[0].to.as_str(),
            mails[0].vars["device"].as_str()
        ),
        (1, "ada@x.test", "case")
    );
    assert!(mails[0].text.contains("127.0.0.1"), "{mails:?}");
    // Repeated sign-ins do not fill a mailbox, and cannot put text into the mail.
    let body = json!({ "email": "ada@x.test", "password": GOOD }).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "https://evil.test now! Chrome/1"),
    ];
    for _ in 0..8 {
        assert_eq!(
            app.any("POST", "/auth/login", &headers, &body).await.status,
            200
        );
    }
    post.only("new_device_login", 5).await;
    app.advance(3600).await;
    assert_eq!(
        app.any("POST", "/auth/login", &headers, &body).await.status,
        200
    );
    assert_eq!(
        post.only("new_device_login", 6).await[5].vars["device"],
        "Chrome"
    );
    // Repeated sign-ins without a device token do not suppress these mails for ever.
    for _ in 0..12 {
        app.advance(600).await;
        assert_eq!(
            app.any("POST", "/auth/login", &headers, &body).await.status,
            200
        );
    }
    let mails = post.only("new_device_login", 16).await;
    assert!(
        mails
            .iter()
            .all(|mail| !mail.text.contains("evil.test") && !mail.html.contains("evil.test"))
    );
}

async fn the_transport_decides_where_device_tokens_are_sent(store: Store) {
    for (transport, in_body, in_cookie) in [
        (linchpin_auth::Transport::Cookie, false, true),
        (linchpin_auth::Transport::Bearer, true, false),
    ] {
        let app = store.app_with(|auth| auth.transport(transport)).await;
        let email = format!("{transport:?}@x.test");
        let made = app
            .post(
                "/auth/register",
                json!({ "email": email, "password": GOOD }),
            )
            .await;
        assert_eq!(
            (
                !made.text("deviceToken").is_empty(),
                made.cookie("__Secure-device").is_some()
            ),
            (in_body, in_cookie),
            "{made:?}"
        );
        app.stop().await;
    }
}
