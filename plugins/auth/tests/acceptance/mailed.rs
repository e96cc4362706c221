//! Verification of addresses, and sign-in by mailed links.

use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

cases! {
    every_store:
        sign_ups_are_counted_once, required_verification_gives_no_session_before_it,
        resent_verification_does_not_reveal_accounts, a_magic_link_signs_in_once,
        a_magic_link_that_first_proves_a_mailbox_resets_the_account,
        a_magic_link_may_create_an_account;
    one_store:
        mail_routes_exist_only_if_enabled, a_mail_has_the_language_of_its_account,
        notices_recommend_available_actions;
}

async fn verifying(store: &Store, post: &Post, required: bool) -> Server {
    let with_mail = |auth| {
        post.on(auth).configure(|config| {
            config.auth.email_verification.enabled = true;
            config.auth.email_verification.required = required;
            config.auth.magic_link.enabled = true;
        })
    };
    store.app_with(with_mail).await
}

async fn required_verification_gives_no_session_before_it(store: Store) {
    let post = Post::default();
    let app = verifying(&store, &post, true).await;
    let account = json!({ "email": "a@x.test", "password": GOOD });
    let made = app.post("/auth/register", account.clone()).await;
    assert_eq!(
        (
            made.status,
            made.text("token").as_str(),
            made.headers.get("set-cookie")
        ),
        (201, "", None)
    );
    assert_eq!(made.json()["emailVerified"], false);
    app.post("/auth/login", account.clone())
        .await
        .refused(403, "email_not_verified");
    app.post(
        "/auth/login",
        json!({ "email": "a@x.test", "password": "nope-nope-nope" }),
    )
    .await
    .refused(401, "invalid_credentials");
    let token = post.token("verify_email", 1).await;
    let done = app
        .post("/auth/verify-email", json!({ "token": token }))
        .await;
    assert_eq!(
        (done.status, done.json(), done.headers.get("set-cookie")),
        (
            200,
            json!({ "ok": true, "message": "The address is verified." }),
            None
        )
    );
    let signed_in = app.post("/auth/login", account).await;
    assert_eq!(
        (signed_in.status, signed_in.json()["emailVerified"].clone()),
        (200, json!(true))
    );
    app.post("/auth/verify-email", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
}

async fn resent_verification_does_not_reveal_accounts(store: Store) {
    let post = Post::default();
    let app = verifying(&store, &post, false).await;
    app.register("done@x.test").await;
    let token = post.token("verify_email", 1).await;
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
    let open = app.register("open@x.test").await;
    let first = post.token("verify_email", 2).await;
    app.advance(1).await;
    let mut bodies = Vec::new();
    for email in ["done@x.test", "nobody@x.test", "open@x.test"] {
        let reply = app
            .post("/auth/resend-verification", json!({ "email": email }))
            .await;
        assert_eq!(reply.status, 200);
        bodies.push(reply.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    let second = post.token("verify_email", 3).await;
    app.post("/auth/verify-email", json!({ "token": first }))
        .await
        .refused(400, "invalid_token");
    app.advance(1).await;
    // In a session, the address need not be sent.
    let own = app
        .with(
            &open.token,
            "POST",
            "/auth/resend-verification",
            Some(json!({})),
        )
        .await;
    assert_eq!(own.body, bodies[0]);
    let third = post.token("verify_email", 4).await;
    app.post("/auth/verify-email", json!({ "token": second }))
        .await
        .refused(400, "invalid_token");
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": third }))
            .await
            .status,
        200
    );
    app.post("/auth/resend-verification", json!({}))
        .await
        .problem("required", "email");
    assert_eq!(post.count("verify_email"), 4);
}

async fn a_magic_link_signs_in_once(store: Store) {
    let post = Post::default();
    let app = verifying(&store, &post, false).await;
    app.register("a@x.test").await;
    let unknown = app
        .post(
            "/auth/magic-link/request",
            json!({ "identifier": "nobody@x.test" }),
        )
        .await;
    let known = app
        .post(
            "/auth/magic-link/request",
            json!({ "identifier": "A@x.test" }),
        )
        .await;
    assert_eq!((known.status, &known.body), (200, &unknown.body));
    let token = post.token("magic_link", 1).await;
    assert_eq!(
        app.raw("GET", "/auth/magic-link/verify", &[], "")
            .await
            .status,
        405
    );
    app.post(
        "/auth/reset-password",
        json!({ "token": token, "password": "amber-walrus-17-dune" }),
    )
    .await
    .refused(400, "invalid_token");
    let done = app
        .post("/auth/magic-link/verify", json!({ "token": token }))
        .await;
    assert_eq!(
        (done.status, done.json()["emailVerified"].clone()),
        (200, json!(true))
    );
    assert_eq!(app.me(&done.signed_in().token).await.status, 200);
    app.post("/auth/magic-link/verify", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "a@x.test" }),
    )
    .await;
    let late = post.token("magic_link", 2).await;
    app.advance(601).await;
    app.post("/auth/magic-link/verify", json!({ "token": late }))
        .await
        .refused(400, "invalid_token");
    assert_eq!(post.count("magic_link"), 2);
}

// A stranger signs up with another person's address. When the owner signs in by link, everything
// that the stranger set up is removed.
async fn a_magic_link_that_first_proves_a_mailbox_resets_the_account(store: Store) {
    let post = Post::default();
    let app = verifying(&store, &post, false).await;
    let stranger = app.register("owner@x.test").await;
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "owner@x.test" }),
    )
    .await;
    let token = post.token("magic_link", 1).await;
    let owner = app
        .post("/auth/magic-link/verify", json!({ "token": token }))
        .await;
    assert_eq!(owner.status, 200);
    app.me(&stranger.token).await.refused(401, "unauthorized");
    app.post(
        "/auth/login",
        json!({ "email": "owner@x.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    let me = app.me(&owner.signed_in().token).await.json();
    assert_eq!(
        (me["hasPassword"].clone(), me["emailVerified"].clone()),
        (json!(false), json!(true))
    );
    // A removed password is always reported by mail.
    post.all("password_changed", 1).await;
    let past = app
        .get(&owner.signed_in().token, "/auth/activity?limit=100")
        .await
        .json();
    assert!(
        past["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["event"] == "auth:password.changed"),
        "{past}"
    );
    // The account has no password now. A recent sign-in allows setting one.
    let set = app
        .with(
            &owner.signed_in().token,
            "POST",
            "/auth/set-password",
            Some(json!({ "password": GOOD })),
        )
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    app.advance(1).await;
    // The suspension of an account is reported only to a caller with a valid token.
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "owner@x.test" }),
    )
    .await;
    let token = post.token("magic_link", 2).await;
    app.change(&stranger.id, json!({ "suspended": true })).await;
    app.post("/auth/magic-link/verify", json!({ "token": token }))
        .await
        .refused(403, "account_suspended");
}

async fn a_magic_link_may_create_an_account(store: Store) {
    let post = Post::default();
    let signing_up = |auth| {
        post.on(auth).configure(|config| {
            config.auth.email_verification.enabled = true;
            config.auth.magic_link.enabled = true;
            config.auth.magic_link.allow_sign_up = true;
        })
    };
    let app = store.app_with(signing_up).await;
    app.register("known@x.test").await;
    let ask = async |email: &str| {
        app.post("/auth/magic-link/request", json!({ "identifier": email }))
            .await
    };
    let (known, new) = (ask("known@x.test").await, ask("New@x.test").await);
    assert_eq!((known.status, &known.body), (new.status, &new.body));
    let link = |mails: &[linchpin_auth::Mail], to: &str| {
        let mail = mails.iter().rfind(|mail| mail.to == to).unwrap();
        mail.vars["link"]
            .split_once("#token=")
            .unwrap()
            .1
            .to_owned()
    };
    let first = link(&post.all("magic_link", 2).await, "new@x.test");
    app.advance(1).await;
    ask("new@x.test").await;
    let token = link(&post.all("magic_link", 3).await, "new@x.test");
    app.post("/auth/magic-link/verify", json!({ "token": first }))
        .await
        .refused(400, "invalid_token");
    assert_eq!(
        app.post("/__test/find", json!({ "identifier": "new@x.test" }))
            .await
            .json()["id"],
        json!(null),
        "the link has not been opened, so there is no account"
    );
    let many = futures_util::future::join_all(
        (0..4).map(|_| app.post("/auth/magic-link/verify", json!({ "token": token }))),
    )
    .await;
    let made: Vec<_> = many.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(
        made.len(),
        1,
        "one of the concurrent requests succeeds: {many:?}"
    );
    let me = app.me(&made[0].signed_in().token).await.json();
    assert_eq!(
        (
            &me["email"],
            &me["emailVerified"],
            &me["hasPassword"],
            &me["roles"]
        ),
        (
            &json!("new@x.test"),
            &json!(true),
            &json!(false),
            &json!(["member"])
        )
    );
    // Another sign-up with the address happens before the link is opened.
    ask("late@x.test").await;
    let token = link(&post.all("magic_link", 4).await, "late@x.test");
    app.register("late@x.test").await;
    app.post("/auth/magic-link/verify", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    app.stop().await;
    let wrong = store
        .try_app(|auth| signing_up(auth).primary_field(linchpin_auth::PrimaryField::Username))
        .await;
    assert!(
        wrong
            .err()
            .unwrap()
            .to_string()
            .contains("auth.magicLink.allowSignUp")
    );
}

async fn mail_routes_exist_only_if_enabled(store: Store) {
    let app = store.app().await;
    for path in [
        "forgot-password",
        "reset-password",
        "verify-email",
        "resend-verification",
        "magic-link/request",
        "magic-link/verify",
    ] {
        assert_eq!(
            app.post(&format!("/auth/{path}"), json!({})).await.status,
            404,
            "{path}"
        );
    }
    app.stop().await;
    let wrong = store.try_app(|auth| {
        auth.configure(|config| {
            config.auth.magic_link.enabled = true;
            config.auth.email_verification.required = true;
            config.auth.password.history_count = 25;
            config.auth.password_reset.enabled = Some(true);
        })
    });
    let text = format!("{:?}", wrong.await.err().unwrap());
    for key in [
        "auth.magicLink.linkBaseUrl",
        "auth.emailVerification.required",
        "auth.password.historyCount",
        "auth.passwordReset.linkBaseUrl",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
    for message in [
        "is required: it is the https address of a page",
        "page of this plugin, https://app.example.com/auth/ui/enter",
        "page of this plugin, https://app.example.com/auth/ui/reset",
    ] {
        assert!(text.contains(message), "{message} in {text}");
    }
}

async fn sign_ups_are_counted_once(store: Store) {
    let two = linchpin_auth::Limit {
        max: 2,
        window_seconds: 60,
    };
    let limit = move |auth: linchpin_auth::Auth| {
        auth.configure(move |config| {
            config
                .auth
                .rate_limit
                .buckets
                .insert("register".to_owned(), two);
        })
    };
    let app = store.app_with(limit).await;
    let sign_up = async |email: &str| {
        app.post(
            "/auth/register",
            json!({ "email": email, "password": GOOD }),
        )
        .await
    };
    assert_eq!(
        (
            sign_up("a@x.test").await.status,
            sign_up("b@x.test").await.status
        ),
        (201, 201)
    );
    sign_up("c@x.test").await.refused(429, "rate_limited");
    app.advance(60).await;
    assert_eq!(sign_up("c@x.test").await.status, 201);
}

async fn a_mail_has_the_language_of_its_account(store: Store) {
    let post = Post::default();
    let app = verifying(&store, &post, false).await;
    let me = app.register("a@x.test").await;
    assert_eq!(
        post.all("verify_email", 1).await[0].locale,
        None,
        "the account has no locale yet"
    );
    let mut sent = 0;
    for (locale, expected) in [
        (json!("de-CH"), Some("de-CH")),
        (json!("pt"), Some("pt")),
        (json!("de\r\nBcc: e@evil.test"), None),
        (json!("d"), None),
        (json!("d".repeat(36)), None),
        (json!("français"), None),
        (json!(["de"]), None),
        (json!(null), None),
    ] {
        let patch = json!({ "userMetadata": { "locale": locale } });
        assert_eq!(
            app.with(&me.token, "PATCH", "/auth/me", Some(patch))
                .await
                .status,
            200
        );
        sent += 1;
        assert_eq!(
            app.post(
                "/auth/magic-link/request",
                json!({ "identifier": "a@x.test" })
            )
            .await
            .status,
            200
        );
        let mails = post.all("magic_link", sent).await;
        assert_eq!(
            mails.last().unwrap().locale.as_deref(),
            expected,
            "{locale}"
        );
        app.advance(3601).await;
    }
    // A notice has the locale too.
    assert_eq!(
        app.with(
            &me.token,
            "PATCH",
            "/auth/me",
            Some(json!({ "userMetadata": { "locale": "de" } }))
        )
        .await
        .status,
        200
    );
    let password = json!({ "password": "another-otter-92-lamp", "currentPassword": GOOD });
    assert_eq!(
        app.with(&me.token, "POST", "/auth/set-password", Some(password))
            .await
            .status,
        200
    );
    assert_eq!(
        post.all("password_changed", 1).await[0].locale.as_deref(),
        Some("de")
    );
}

/// A notice recommends only actions that the app offers.
async fn notices_recommend_available_actions(store: Store) {
    let changed = json!({ "password": "another-otter-92-lamp", "currentPassword": GOOD });
    for (resets, expected) in [
        (Some(true), "If it was not you, reset your password now."),
        (
            Some(false),
            "If it was not you, change your password now, or contact the operator of Acme.",
        ),
    ] {
        let post = Post::default();
        let with = |auth| {
            post.on(auth).configure(move |config| {
                config.auth.app_name = "Acme".into();
                config.auth.password_reset.enabled = resets;
            })
        };
        let app = store.app_with(with).await;
        let me = app.register(&format!("{}@x.test", expected.len())).await;
        assert_eq!(
            app.with(
                &me.token,
                "POST",
                "/auth/set-password",
                Some(changed.clone())
            )
            .await
            .status,
            200
        );
        let mail = post.all("password_changed", 1).await.remove(0);
        assert!(
            mail.text.ends_with(expected) && mail.html.contains(expected),
            "{}",
            mail.text
        );
        app.stop().await;
    }
}
