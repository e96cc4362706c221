//! Attacks on an account without its credentials: guesses and requests neither lock the owner out
//! nor fill the mailbox, and a clock that is set back makes no expired token valid. Nothing here
//! depends on the store.

use linchpin_auth::{Auth, TrustProxy};
use serde_json::{Value as Json, json};

use crate::between::{At, PausingStore};
use crate::concealed::concealed;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

const WRONG: &str = "wrong-otter-91-lamp";
const NEW: &str = "amber-falcon-27-desk";

async fn app(post: &Post) -> Server {
    Store::memory()
        .app_with(|auth| {
            post.on(auth).configure(|config| {
                config.security.trust_proxy = TrustProxy::Hops(1);
                config.auth.magic_link.enabled = true;
                config.auth.email_verification.enabled = true;
            })
        })
        .await
}

/// Sends a POST request from the client address `198.51.100.n`.
async fn post_from(app: &Server, n: usize, path: &str, body: Json) -> Reply {
    let address = format!("198.51.100.{n}");
    app.raw(
        "POST",
        path,
        &[
            ("x-forwarded-for", &address),
            ("content-type", "application/json"),
        ],
        &body.to_string(),
    )
    .await
}

async fn login(app: &Server, n: usize, password: &str) -> Reply {
    post_from(
        app,
        n,
        "/auth/login",
        json!({ "email": "ada@x.test", "password": password }),
    )
    .await
}

/// Makes thirty guesses from thirty addresses, and ten from the address of the owner. They lock the
/// password at other addresses.
async fn guess_from_many_addresses(app: &Server, from: usize) {
    for _ in 0..10 {
        login(app, 200, WRONG).await;
    }
    for n in from..from + 30 {
        login(app, n, WRONG).await;
    }
    login(app, 99, GOOD).await.refused(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_lets_the_owner_in_at_once() {
    let post = Post::default();
    let app = app(&post).await;
    app.register("ada@x.test").await;
    guess_from_many_addresses(&app, 0).await;
    login(&app, 200, GOOD).await.refused(429, "rate_limited");
    assert_eq!(
        post_from(
            &app,
            200,
            "/auth/forgot-password",
            json!({ "email": "ada@x.test" })
        )
        .await
        .status,
        200
    );
    let token = post.token("password_reset", 1).await;
    assert_eq!(
        post_from(
            &app,
            200,
            "/auth/reset-password",
            json!({ "token": token, "password": NEW })
        )
        .await
        .status,
        200
    );
    assert_eq!(login(&app, 200, NEW).await.status, 200);
    // Later guesses from other addresses lock the password at other addresses, but not at the
    // owner's.
    for n in 40..70 {
        login(&app, n, WRONG)
            .await
            .refused(401, "invalid_credentials");
    }
    login(&app, 99, NEW).await.refused(429, "rate_limited");
    assert_eq!(login(&app, 200, NEW).await.status, 200);
    // At the owner's address ten guesses are allowed.
    for _ in 0..10 {
        login(&app, 200, WRONG)
            .await
            .refused(401, "invalid_credentials");
    }
    login(&app, 200, NEW).await.refused(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_magic_link_lets_the_owner_in_at_once() {
    let post = Post::default();
    let app = app(&post).await;
    let ada = app.register("ada@x.test").await;
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    guess_from_many_addresses(&app, 0).await;
    assert_eq!(
        post_from(
            &app,
            200,
            "/auth/magic-link/request",
            json!({ "identifier": "ada@x.test" })
        )
        .await
        .status,
        200
    );
    let token = post.token("magic_link", 1).await;
    assert_eq!(
        post_from(
            &app,
            200,
            "/auth/magic-link/verify",
            json!({ "token": token })
        )
        .await
        .status,
        200
    );
    assert_eq!(login(&app, 200, GOOD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_others_do_not_use_up_the_mail_limit_of_the_owner() {
    let post = Post::default();
    let app = app(&post).await;
    app.register("ada@x.test").await;
    for (path, field, kind, seconds, mailed_before) in [
        ("/auth/forgot-password", "email", "password_reset", 1800, 0),
        (
            "/auth/magic-link/request",
            "identifier",
            "magic_link",
            600,
            0,
        ),
    ] {
        let ask = async |n: usize| {
            assert_eq!(
                post_from(&app, n, path, json!({ field: "ada@x.test" }))
                    .await
                    .status,
                200
            );
        };
        for n in 0..6 {
            ask(n).await;
            post.all(kind, mailed_before + (n + 1).min(3)).await;
        }
        // The last link has expired, and other people have used up the mails of the hour. One more
        // mail is sent, so that the owner has a valid link.
        app.advance(seconds).await;
        for n in 0..6 {
            ask(10 + n).await;
        }
        post.only(kind, mailed_before + 4).await;
    }
    // After a link is used, the next request sends one more mail.
    let token = post.token("password_reset", 4).await;
    assert_eq!(
        post_from(
            &app,
            200,
            "/auth/reset-password",
            json!({ "token": token, "password": NEW })
        )
        .await
        .status,
        200
    );
    assert_eq!(
        post_from(
            &app,
            20,
            "/auth/forgot-password",
            json!({ "email": "ada@x.test" })
        )
        .await
        .status,
        200
    );
    post.only("password_reset", 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_to_one_address_are_limited_over_all_callers() {
    let post = Post::default();
    let app = app(&post).await;
    for n in 0..6 {
        let who = app.register(&format!("{n}@x.test")).await;
        app.register(&format!("held-{n}@x.test")).await;
        for target in ["victim@y.test", "held-0@x.test"] {
            let body = json!({ "email": target, "password": GOOD });
            let asked = app
                .with(&who.token, "POST", "/auth/change-email", Some(body))
                .await;
            assert_eq!(asked.status, 202, "{asked:?}");
        }
    }
    // This mail is sent after all others.
    app.register("last@x.test").await;
    post.all("verify_email", 13).await;
    let new: Vec<_> = post
        .all("verify_new_email", 3)
        .await
        .into_iter()
        .filter(|mail| mail.to == "victim@y.test")
        .collect();
    assert_eq!(new.len(), 3);
    // The mail about the sign-up with this address also counts against the limit of the address.
    assert_eq!(post.all("existing_account", 2).await.len(), 2);
    // The latest mailed link is valid.
    let token = post.token("verify_new_email", 3).await;
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sign_ups_with_an_address_mail_its_owner_three_times_an_hour() {
    let post = Post::default();
    let app = Store::memory()
        .app_with(|auth| concealed(auth, &post))
        .await;
    let sign_up = async |email: &str| {
        let reply = app
            .post(
                "/auth/register",
                json!({ "email": email, "password": GOOD }),
            )
            .await;
        assert_eq!(reply.status, 202, "{reply:?}");
    };
    for _ in 0..6 {
        sign_up("ada@x.test").await;
    }
    sign_up("last@x.test").await;
    post.all("verify_email", 2).await;
    // The link of the first sign-up counts as one of the three mails. If the user requests a link
    // after that, it is still mailed.
    assert_eq!(post.only("existing_account", 2).await.len(), 2);
    app.post(
        "/auth/resend-verification",
        json!({ "email": "ada@x.test" }),
    )
    .await;
    assert_eq!(
        post.all("verify_email", 3).await.last().unwrap().to,
        "ada@x.test"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_the_clock_back_revives_no_credential() {
    let app = Store::memory().app_with(Auth::refresh_tokens).await;
    let ada = app.register("ada@x.test").await;
    let renewed = app
        .post("/auth/refresh", json!({ "refreshToken": ada.refresh }))
        .await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    app.advance(920).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    app.set_back(3600);
    app.me(&ada.token).await.refused(401, "unauthorized");
    // The grace period of ten seconds for a used refresh token does not start again.
    app.post("/auth/refresh", json!({ "refreshToken": ada.refresh }))
        .await
        .refused(401, "refresh_reused");
    // A new sign-in works.
    let again = app.login("ada@x.test").await;
    assert_eq!(app.me(&again.token).await.status, 200);
    app.advance(920 + 3600).await;
    app.me(&again.token).await.refused(401, "unauthorized");
}

/// For an hour after a proof, guesses from other network addresses do not lock the password at the
/// network address of the owner. A second proof extends this time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_proof_protects_the_owner_for_an_hour() {
    let post = Post::default();
    let app = app(&post).await;
    let ada = app.register("ada@x.test").await;
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    for n in 1..=2 {
        assert_eq!(
            post_from(
                &app,
                200,
                "/auth/magic-link/request",
                json!({ "identifier": "ada@x.test" })
            )
            .await
            .status,
            200
        );
        let token = post.token("magic_link", n).await;
        assert_eq!(
            post_from(
                &app,
                200,
                "/auth/magic-link/verify",
                json!({ "token": token })
            )
            .await
            .status,
            200
        );
        app.advance(2400).await;
    }
    guess_from_many_addresses(&app, 0).await;
    app.advance(900).await;
    assert_eq!(login(&app, 200, GOOD).await.status, 200);
}

/// If the limit of mails is exhausted and no link is valid, one mail is due. It is sent when the
/// store works again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_could_not_be_queued_is_sent_later() {
    let post = Post::default();
    let (app, between) = PausingStore::app(&Store::memory(), |auth| post.on(auth)).await;
    app.register("ada@x.test").await;
    let ask = async || {
        assert_eq!(
            app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
                .await
                .status,
            200
        );
    };
    for n in 1..=3 {
        ask().await;
        post.all("password_reset", n).await;
    }
    app.advance(1800).await;
    between.fail(At::insert("OneTime", 1));
    ask().await;
    while !between.has_failed() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    app.advance(11).await;
    post.only("password_reset", 4).await;
}

/// The notices about changes of an account with an unproved address are limited per hour, because
/// the mailbox may belong to another person. The changes still happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_to_an_unproved_address_are_limited_per_hour() {
    let post = Post::default();
    let app = app(&post).await;
    let who = app.register("ada@x.test").await;
    let passwords = [GOOD, NEW];
    let changes = async |from: usize, to: usize| {
        for n in from..to {
            let body =
                json!({ "currentPassword": passwords[n % 2], "password": passwords[(n + 1) % 2] });
            let set = app
                .with(&who.token, "POST", "/auth/set-password", Some(body))
                .await;
            assert_eq!(set.status, 200, "{n}: {set:?}");
        }
    };
    changes(0, 14).await;
    post.only("password_changed", 10).await;
    // Links that undo a change of address have a separate limit.
    for n in 0..5 {
        let body = json!({ "email": format!("new-{n}@y.test"), "password": GOOD });
        assert_eq!(
            app.with(&who.token, "POST", "/auth/change-email", Some(body))
                .await
                .status,
            202
        );
    }
    post.all("verify_new_email", 5).await;
    post.only("email_changed", 3).await;
    app.advance(3600).await;
    changes(14, 15).await;
    post.only("password_changed", 11).await;
    // The owner of the mailbox gets every mail.
    app.change(&who.id, json!({ "emailVerified": true })).await;
    changes(15, 27).await;
    post.only("password_changed", 23).await;
}

/// A thief with the password cannot suppress the link that cancels a deletion: each request mails a
/// new link and invalidates the previous one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_that_cancels_a_deletion_is_always_mailed() {
    let post = Post::default();
    let with = |auth| {
        post.on(auth).configure(|c| {
            c.auth.account_deletion.link_base_url = Some("https://app.test/keep".into());
        })
    };
    let app = Store::memory().app_with(with).await;
    let thief = app.register("ada@x.test").await;
    let request_deletion = || {
        app.with(
            &thief.token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD })),
        )
    };
    for _ in 0..4 {
        assert_eq!(request_deletion().await.status, 202);
        assert_eq!(
            app.with(
                &thief.token,
                "POST",
                "/auth/cancel-deletion",
                Some(json!({}))
            )
            .await
            .status,
            200
        );
    }
    assert_eq!(request_deletion().await.status, 202);
    let kept = app
        .post(
            "/auth/cancel-deletion",
            json!({ "token": post.token("cancel_deletion", 5).await }),
        )
        .await;
    assert_eq!(kept.status, 200, "{kept:?}");
}
