//! Concealed registration: responses do not reveal whether an account exists.

use std::process::Command;
use std::sync::Arc;

use linchpin::BoxFuture;
use linchpin_auth::{Auth, AuthHooks, HookCx, HookError, HookResult, Mail, Mailer, SignUp};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::cases;
use crate::issuer::enter;
use crate::oauth;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

cases! {
    every_store:
        concealed_registrations_have_equal_responses,
        two_sign_ups_with_an_unproved_address_leave_no_password,
        a_provider_of_an_unproved_sign_up_is_unlinked,
        a_late_concealed_sign_up_counts_from_its_request,
        a_late_concealed_sign_up_respects_a_proved_address,
        an_account_with_an_old_proof_keeps_its_password,
        refused_concealed_registrations_have_equal_responses,
        an_unproved_account_reveals_nothing_at_sign_in, a_suspended_account_stays_concealed;
    one_store: concealment_needs_verification;
}

pub fn concealed(auth: Auth, post: &Post) -> Auth {
    post.on(auth).configure(|config| {
        config.auth.conceal_registration = true;
        config.auth.email_verification.enabled = true;
    })
}

async fn sign_up(app: &Server, email: &str, password: &str) -> Reply {
    app.post(
        "/auth/register",
        json!({ "email": email, "password": password }),
    )
    .await
}

/// The parts of a response that an attacker can compare.
fn comparable(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers: Vec<(String, String)> = reply
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.retain(|(name, _)| name != "x-request-id" && name != "date");
    headers.sort();
    let mut body = reply.body.to_vec();
    if reply.status >= 400 {
        let mut json = reply.json();
        json["requestId"] = json!("");
        body = json.to_string().into_bytes();
    }
    (reply.status, headers, body)
}

async fn concealed_registrations_have_equal_responses(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    let new = sign_up(&app, "ada@x.test", GOOD).await;
    assert_eq!(
        (
            new.status,
            new.json()["ok"].clone(),
            new.headers.get("set-cookie")
        ),
        (202, json!(true), None)
    );
    let token = post.token("verify_email", 1).await;
    let existing = sign_up(&app, "ADA@x.test", OTHER).await;
    assert_eq!(
        comparable(&new),
        comparable(&existing),
        "the responses are equal byte for byte"
    );
    assert_eq!(post.all("existing_account", 1).await[0].to, "ada@x.test");
    // The token signs in, and is refused on other routes.
    app.post("/auth/verify-email", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    let done = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    assert_eq!(
        (done.status, done.json()["emailVerified"].clone()),
        (200, json!(true)),
        "{done:?}"
    );
    assert!(done.cookie("__Host-token").is_some());
    assert_eq!(app.me(&done.signed_in().token).await.status, 200);
    app.post("/auth/verify-and-login", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    // After the owner has set a password, sign-ups with another password have no effect.
    let me = done.signed_in();
    assert_eq!(
        app.with(
            &me.token,
            "POST",
            "/auth/set-password",
            Some(json!({ "password": GOOD }))
        )
        .await
        .status,
        200
    );
    assert_eq!(
        comparable(&sign_up(&app, "ada@x.test", OTHER).await),
        comparable(&new)
    );
    post.all("existing_account", 2).await;
    app.login("ada@x.test").await;
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": OTHER }),
    )
    .await
    .refused(401, "invalid_credentials");
    // Many concurrent sign-ups create one account, mail one link, and get the same response.
    let many =
        futures_util::future::join_all((0..8).map(|_| sign_up(&app, "bob@x.test", GOOD))).await;
    assert!(
        many.iter()
            .all(|reply| comparable(reply) == comparable(&new)),
        "{many:?}"
    );
    post.token("verify_email", 2).await;
    app.advance(86_401).await;
    assert_eq!(post.count("verify_email"), 2);
    let late = post.token("verify_email", 2).await;
    app.post("/auth/verify-and-login", json!({ "token": late }))
        .await
        .refused(400, "invalid_token");
    app.post(
        "/auth/resend-verification",
        json!({ "email": "bob@x.test" }),
    )
    .await;
    let again = post.token("verify_email", 3).await;
    assert_eq!(
        app.post("/auth/verify-and-login", json!({ "token": again }))
            .await
            .status,
        200
    );
    // All eight sign-ups had the same password, so it is the password of the account.
    app.login("bob@x.test").await;
}

const OTHER: &str = "amber-walrus-17-dune";

/// If two people sign up with an address before it is verified, neither is known to be its owner.
/// The password of the first must not work after the owner follows the link, because the owner
/// believes that their own password is set.
async fn two_sign_ups_with_an_unproved_address_leave_no_password(store: Store) {
    let post = Post::default();
    let two_mails = linchpin_auth::Limit {
        max: 2,
        window_seconds: 3600,
    };
    let with_limit = |auth: Auth| {
        auth.configure(|config| {
            config
                .auth
                .rate_limit
                .buckets
                .extend([("strangerMail".to_owned(), two_mails)]);
        })
    };
    let app = store
        .app_with(|auth| with_limit(concealed(auth, &post)))
        .await;
    let check_passwords_are_refused = async |email: &str| {
        for password in [GOOD, OTHER] {
            app.post(
                "/auth/login",
                json!({ "email": email, "password": password }),
            )
            .await
            .refused(401, "invalid_credentials");
        }
    };
    let thief = sign_up(&app, "ada@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    let owner = sign_up(&app, "ada@x.test", OTHER).await;
    assert_eq!(comparable(&thief), comparable(&owner));
    post.all("existing_account", 1).await;
    let done = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    check_passwords_are_refused("ada@x.test").await;
    let me = done.signed_in();
    assert_eq!(app.me(&me.token).await.json()["hasPassword"], json!(false));
    assert_eq!(
        app.with(
            &me.token,
            "POST",
            "/auth/set-password",
            Some(json!({ "password": OTHER }))
        )
        .await
        .status,
        200
    );
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": OTHER })
        )
        .await
        .status,
        200
    );
    // The result is the same if another person has used up the limit of mails to the owner's
    // mailbox.
    let moving = json!({ "email": "bob@x.test", "password": OTHER });
    assert_eq!(
        app.with(&me.token, "POST", "/auth/change-email", Some(moving))
            .await
            .status,
        202
    );
    sign_up(&app, "bob@x.test", GOOD).await;
    let token = post.token("verify_email", 2).await;
    sign_up(&app, "bob@x.test", OTHER).await;
    // The outbox runs in order, so the earlier request is done by then.
    sign_up(&app, "carol@x.test", GOOD).await;
    post.token("verify_email", 3).await;
    assert_eq!(post.count("existing_account"), 1);
    assert_eq!(
        app.post("/auth/verify-and-login", json!({ "token": token }))
            .await
            .status,
        200
    );
    check_passwords_are_refused("bob@x.test").await;
}

/// A provider that was linked before the address was verified is unlinked when the owner verifies
/// it.
async fn a_provider_of_an_unproved_sign_up_is_unlinked(store: Store) {
    let post = Post::default();
    let app = oauth::app_with(&store, |auth| concealed(auth, &post)).await;
    let thief = enter(&app, "peer", "mallory").await;
    let email = thief.text("email");
    assert_eq!(
        app.me(&thief.text("token")).await.json()["providers"],
        json!(["peer"])
    );
    let token = post.token("verify_email", 1).await;
    sign_up(&app, &email, GOOD).await;
    post.all("existing_account", 1).await;
    app.me(&thief.text("token"))
        .await
        .refused(401, "unauthorized");
    let done = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    assert_eq!(
        app.me(&done.signed_in().token).await.json()["providers"],
        json!([])
    );
}

/// A mailer that delays mail to one address, and so the whole outbox.
#[derive(Clone)]
struct Slow {
    post: Post,
    delayed: Arc<Semaphore>,
    release: Arc<Semaphore>,
}

impl Mailer for Slow {
    fn send(&self, mail: Mail) -> BoxFuture<'_, linchpin::Result<()>> {
        Box::pin(async move {
            if mail.to == "slow@x.test" {
                self.delayed.add_permits(1);
                drop(self.release.acquire().await);
            }
            self.post.send(mail).await
        })
    }
}

/// The time of a sign-up is the time of its request, even if the outbox processes it later. If the
/// address was not verified at that time, the account loses its password and its sessions.
async fn a_late_concealed_sign_up_counts_from_its_request(store: Store) {
    let post = Post::default();
    let slow = Slow {
        post: post.clone(),
        delayed: Arc::new(Semaphore::new(0)),
        release: Arc::new(Semaphore::new(0)),
    };
    let mailer = slow.clone();
    let app = store
        .app_with(|auth| {
            concealed(auth, &post).configure(|config| config.auth.mailer = Some(Arc::new(mailer)))
        })
        .await;
    sign_up(&app, "ada@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    sign_up(&app, "slow@x.test", GOOD).await;
    slow.delayed.acquire().await.unwrap().forget();
    app.advance(1).await;
    sign_up(&app, "ada@x.test", OTHER).await;
    app.advance(1).await;
    let done = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        post.count("existing_account"),
        0,
        "the outbox has not processed the sign-up yet"
    );
    slow.release.add_permits(1);
    post.all("existing_account", 1).await;
    for password in [GOOD, OTHER] {
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": password }),
        )
        .await
        .refused(401, "invalid_credentials");
    }
    app.me(&done.signed_in().token)
        .await
        .refused(401, "unauthorized");
}

/// An account with a verified address keeps password and sessions during a change of address.
async fn a_late_concealed_sign_up_respects_a_proved_address(store: Store) {
    let post = Post::default();
    let slow = Slow {
        post: post.clone(),
        delayed: Arc::new(Semaphore::new(0)),
        release: Arc::new(Semaphore::new(0)),
    };
    let mailer = slow.clone();
    let app = store
        .app_with(|auth| {
            concealed(auth, &post).configure(|config| config.auth.mailer = Some(Arc::new(mailer)))
        })
        .await;
    sign_up(&app, "ada@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    let ada = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await
        .signed_in();
    app.advance(1).await;
    let asked = app
        .with(
            &ada.token,
            "POST",
            "/auth/change-email",
            Some(json!({ "email": "new@x.test", "password": GOOD })),
        )
        .await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let token = post.token("verify_new_email", 1).await;
    sign_up(&app, "slow@x.test", GOOD).await;
    slow.delayed.acquire().await.unwrap().forget();
    sign_up(&app, "new@x.test", OTHER).await;
    app.advance(1).await;
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
    assert_eq!(
        post.count("existing_account"),
        0,
        "the outbox has not processed the sign-up yet"
    );
    slow.release.add_permits(1);
    post.all("existing_account", 1).await;
    assert_eq!(app.me(&ada.token).await.status, 200);
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "email": "new@x.test", "password": GOOD })
        )
        .await
        .status,
        200
    );
}

/// An older database has only the date of the last verification.
async fn an_account_with_an_old_proof_keeps_its_password(store: Store) {
    let Some(file) = store.file() else { return };
    let post = Post::default();
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    sign_up(&app, "ada@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    let ada = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await
        .signed_in();
    app.stop().await;
    let forget = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('UPDATE auth_users SET proved_at = NULL'); db.commit()";
    assert!(
        Command::new("python3")
            .args(["-c", forget, &file.display().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    app.advance(1).await;
    sign_up(&app, "ada@x.test", OTHER).await;
    post.all("existing_account", 1).await;
    assert_eq!(app.me(&ada.token).await.status, 200);
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD })
        )
        .await
        .status,
        200
    );
}

struct Refusing;

impl AuthHooks for Refusing {
    fn pre_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Err(HookError::new("no")) })
    }
}

async fn refused_concealed_registrations_have_equal_responses(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    sign_up(&app, "ada@x.test", GOOD).await;
    for password in ["short", "password123"] {
        let (known, unknown) = (
            sign_up(&app, "ada@x.test", password).await,
            sign_up(&app, "eve@x.test", password).await,
        );
        assert_eq!(
            (known.status, comparable(&known)),
            (400, comparable(&unknown))
        );
    }
    app.stop().await;
    let app = store
        .app_with(|auth| concealed(auth, &post).hooks(Refusing))
        .await;
    let (known, unknown) = (
        sign_up(&app, "ada@x.test", GOOD).await,
        sign_up(&app, "eve@x.test", GOOD).await,
    );
    known.refused(400, "hook_rejected");
    assert_eq!(comparable(&known), comparable(&unknown));
}

// Signing in with the password of the sign-up reveals nothing either.
async fn an_unproved_account_reveals_nothing_at_sign_in(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    sign_up(&app, "known@x.test", "amber-walrus-17-dune").await;
    let token = post.token("verify_email", 1).await;
    app.post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    let mut answers = Vec::new();
    for email in ["known@x.test", "new@x.test"] {
        sign_up(&app, email, GOOD).await;
        answers.push(comparable(
            &app.post("/auth/login", json!({ "email": email, "password": GOOD }))
                .await,
        ));
    }
    assert_eq!((answers[0].0, &answers[0]), (401, &answers[1]));
}

async fn a_suspended_account_stays_concealed(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| concealed(auth, &post)).await;
    sign_up(&app, "ada@x.test", GOOD).await;
    let token = post.token("verify_email", 1).await;
    let done = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    let id = done.signed_in().id;
    sign_up(&app, "bob@x.test", GOOD).await;
    let token = post.token("verify_email", 2).await;
    let bob = app
        .post("/__test/find", json!({ "identifier": "bob@x.test" }))
        .await
        .text("id");
    assert_ne!(bob, id);
    app.change(&bob, json!({ "suspended": true })).await;
    app.post("/auth/verify-and-login", json!({ "token": token }))
        .await
        .refused(403, "account_suspended");
    app.change(&bob, json!({ "suspended": false })).await;
    app.post("/auth/verify-and-login", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
}

async fn concealment_needs_verification(store: Store) {
    let wrong = store
        .try_app(|auth| auth.configure(|config| config.auth.conceal_registration = true))
        .await;
    assert!(
        wrong
            .err()
            .unwrap()
            .to_string()
            .contains("auth.concealRegistration")
    );
    let app = store.app().await;
    app.post("/auth/verify-and-login", json!({ "token": "x" }))
        .await
        .refused(404, "not_found");
}
