//! Sessions and links that end while others are being created, and requests by which other people
//! must not end a user's session or block a sign-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linchpin::BoxFuture;
use linchpin_auth::{
    AccountDeletion, AuthHooks, HookCx, HookResult, LegacyVerifier, PasswordChange, SignIn,
};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

use crate::authenticator::Authenticator;
use crate::cases;
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

cases! {
    every_store:
        a_sign_in_during_a_reset_is_refused, a_sign_in_during_a_suspension_is_refused,
        a_sign_in_during_the_set_up_of_a_factor_is_refused,
        calls_of_a_session_that_ends_meanwhile_have_no_effect,
        an_email_change_during_a_reset_is_refused, a_reset_voids_a_pending_email_change,
        a_reset_that_first_proves_a_mailbox_resets_the_account,
        guesses_from_a_known_device_are_bounded,
        forged_refresh_tokens_count_against_no_account;
    one_store: pages_of_other_origins_clear_no_cookies;
}

const NEW: &str = "amber-walrus-17-dune";

/// Pauses sign-ins, password changes and deletions between the read of the account and the effect.
#[derive(Clone, Default)]
pub struct Gate {
    armed: Arc<AtomicBool>,
    paused: Arc<Notify>,
    resume: Arc<Notify>,
}

impl AuthHooks for Gate {
    fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
        Box::pin(async move {
            self.pass().await;
            Ok(())
        })
    }

    fn pre_password_change<'a>(
        &'a self,
        _: &'a HookCx,
        _: &'a PasswordChange,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async move {
            self.pass().await;
            Ok(())
        })
    }

    fn pre_delete_account<'a>(
        &'a self,
        _: &'a HookCx,
        _: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async move {
            self.pass().await;
            Ok(())
        })
    }
}

impl Gate {
    /// Runs `other` while `call` is paused at its hook.
    pub async fn while_paused(
        &self,
        call: impl Future<Output = Reply>,
        other: impl Future<Output = ()>,
    ) -> Reply {
        self.armed.store(true, Ordering::SeqCst);
        let between = async {
            self.paused.notified().await;
            other.await;
            self.resume.notify_one();
        };
        futures_util::future::join(call, between).await.0
    }

    async fn pass(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.paused.notify_one();
            self.resume.notified().await;
        }
    }

    /// Runs `other` while a sign-in with the correct password is paused.
    async fn meanwhile(&self, app: &Server, other: impl Future<Output = ()>) -> Reply {
        self.while_paused(
            app.post(
                "/auth/login",
                json!({ "email": "ada@x.test", "password": GOOD }),
            ),
            other,
        )
        .await
    }
}

async fn a_sign_in_during_the_set_up_of_a_factor_is_refused(store: Store) {
    let (gate, post) = (Gate::default(), Post::default());
    let app = crate::factor::app_with(&store, &post, |auth| auth.hooks(gate.clone())).await;
    let ada = app.register("ada@x.test").await;
    let enrolment = async {
        crate::factor::enrol(&app, &ada).await;
    };
    gate.meanwhile(&app, enrolment)
        .await
        .refused(401, "invalid_credentials");
    app.challenged("ada@x.test").await;
    assert_eq!(sessions(&app, &ada.token).await, 1);
}

/// A call whose session ends while a hook runs has no effect.
async fn calls_of_a_session_that_ends_meanwhile_have_no_effect(store: Store) {
    let gate = Gate::default();
    let app = store.app_with(|auth| auth.hooks(gate.clone())).await;
    let ada = app.register("ada@x.test").await;
    let ends = async || {
        assert_eq!(
            app.with(&ada.token, "POST", "/auth/sessions/revoke-others", None)
                .await
                .status,
            200
        );
    };
    let thief = app.login("ada@x.test").await;
    let body = json!({ "currentPassword": GOOD, "password": NEW });
    gate.while_paused(
        app.with(&thief.token, "POST", "/auth/set-password", Some(body)),
        ends(),
    )
    .await
    .refused(401, "unauthorized");
    let thief = app.login("ada@x.test").await;
    let body = json!({ "password": GOOD });
    gate.while_paused(
        app.with(&thief.token, "DELETE", "/auth/me", Some(body)),
        ends(),
    )
    .await
    .refused(401, "unauthorized");
    app.login("ada@x.test").await;
    assert_eq!(
        app.me(&ada.token).await.json()["deletionScheduledFor"],
        json!(null)
    );
}

/// A verifier of imported hashes that is paused while `blocked` is set.
#[derive(Clone, Default)]
struct Slow {
    blocked: Arc<AtomicBool>,
    paused: Arc<Notify>,
}

impl LegacyVerifier for Slow {
    fn recognises(&self, stored: &str) -> bool {
        stored == "$slow$"
    }

    fn verify(&self, password: &str, _: &str) -> bool {
        if self.blocked.load(Ordering::SeqCst) {
            self.paused.notify_one();
            while self.blocked.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        password == GOOD
    }
}

/// The proof was valid when it was checked; in the meantime the password was reset.
async fn an_email_change_during_a_reset_is_refused(store: Store) {
    let (slow, post) = (Slow::default(), Post::default());
    let verifier = Arc::new(slow.clone());
    let app = store
        .app_with(|auth| {
            post.on(auth).configure(|config| {
                config.auth.email_verification.enabled = true;
                config.auth.password.legacy.push(verifier);
                // The hash is unchanged, because a sign-in by link does not check the password.
                config.auth.magic_link.enabled = true;
            })
        })
        .await;
    let mut new = linchpin_auth::NewUser::new("ada@x.test");
    (new.password_hash, new.email_verified) =
        (Some(linchpin_auth::SecretText::new("$slow$")), true);
    app.provided::<linchpin_auth::AuthService>()
        .create_user(new)
        .await
        .unwrap();
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let link = post.token("magic_link", 1).await;
    let thief = app
        .post("/auth/magic-link/verify", json!({ "token": link }))
        .await
        .signed_in();
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    slow.blocked.store(true, Ordering::SeqCst);
    let asked = app.with(
        &thief.token,
        "POST",
        "/auth/change-email",
        Some(json!({ "email": "thief@x.test", "password": GOOD })),
    );
    let meanwhile = async {
        slow.paused.notified().await;
        let reset = app
            .post(
                "/auth/reset-password",
                json!({ "token": token, "password": NEW }),
            )
            .await;
        slow.blocked.store(false, Ordering::SeqCst);
        assert_eq!(reset.status, 200, "{reset:?}");
    };
    let (refused, ()) = futures_util::future::join(asked, meanwhile).await;
    refused.refused(401, "unauthorized");
    post.all("password_reset_done", 1).await;
    assert_eq!(
        (post.count("verify_new_email"), post.count("email_changed")),
        (0, 0)
    );
}

/// The first verification of a mailbox removes other sign-in methods that were added before: here a
/// passkey.
async fn a_reset_that_first_proves_a_mailbox_resets_the_account(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            with_passkeys(post.on(auth)).configure(|config| config.auth.mfa.enabled = false)
        })
        .await;
    let thief = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&thief.token, &mut authenticator).await;
    app.post(
        "/auth/forgot-password",
        json!({ "email": "ada@example.test" }),
    )
    .await;
    let token = post.token("password_reset", 1).await;
    assert_eq!(
        app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": NEW })
        )
        .await
        .status,
        200
    );
    let (options, token) = app.login_options().await;
    app.passkey_login(&token, &authenticator.assert(&options))
        .await
        .refused(401, "webauthn_failed");
}

/// Guesses from a recognised device have a separate limit.
async fn guesses_from_a_known_device_are_bounded(store: Store) {
    let post = Post::default();
    let app = crate::factor::app(&store, &post).await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    let (who, device) = (made.signed_in(), made.text("deviceToken"));
    let (secret, _) = crate::factor::enrol(&app, &who).await;
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", device.as_str()),
    ];
    let guess = async |token: &str| {
        let body = json!({ "mfaToken": token, "code": crate::factor::wrong(&crate::factor::code_at(&app, &secret, 1)) }).to_string();
        app.raw("POST", "/auth/mfa/verify", &headers, &body).await
    };
    for _ in 0..3 {
        let token = app.challenged("ada@x.test").await;
        for _ in 0..5 {
            guess(&token).await.refused(401, "invalid_code");
        }
    }
    guess(&app.challenged("ada@x.test").await)
        .await
        .refused(429, "rate_limited");
    post.all("mfa_under_attack", 1).await;
    // A device without a token can still sign in.
    app.advance(30).await;
    let token = app.challenged("ada@x.test").await;
    assert_eq!(
        app.verify(&token, &crate::factor::code_at(&app, &secret, 0))
            .await
            .status,
        200
    );
}

/// The number of sessions in the list of their owner.
async fn sessions(app: &Server, token: &str) -> usize {
    app.get(token, "/auth/sessions").await.json()["sessions"]
        .as_array()
        .map_or(0, Vec::len)
}

async fn a_sign_in_during_a_reset_is_refused(store: Store) {
    let (gate, post) = (Gate::default(), Post::default());
    let app = store
        .app_with(|auth| post.on(auth).hooks(gate.clone()))
        .await;
    app.register("ada@x.test").await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    let reset = async {
        let done = app
            .post(
                "/auth/reset-password",
                json!({ "token": token, "password": NEW }),
            )
            .await;
        assert_eq!(done.status, 200, "{done:?}");
    };
    gate.meanwhile(&app, reset)
        .await
        .refused(401, "invalid_credentials");
    let owner = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": NEW }),
        )
        .await
        .signed_in();
    assert_eq!(sessions(&app, &owner.token).await, 1);
}

async fn a_sign_in_during_a_suspension_is_refused(store: Store) {
    let gate = Gate::default();
    let app = store.app_with(|auth| auth.hooks(gate.clone())).await;
    let ada = app.register("ada@x.test").await;
    let suspension = async {
        app.change(&ada.id, json!({ "suspended": true })).await;
        app.change(&ada.id, json!({ "suspended": false })).await;
    };
    gate.meanwhile(&app, suspension)
        .await
        .refused(401, "invalid_credentials");
    let again = app.login("ada@x.test").await;
    assert_eq!(sessions(&app, &again.token).await, 1);
}

async fn a_reset_voids_a_pending_email_change(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            post.on(auth)
                .configure(|config| config.auth.email_verification.enabled = true)
        })
        .await;
    let thief = app.register("ada@x.test").await;
    let asked = json!({ "email": "thief@x.test", "password": GOOD });
    assert_eq!(
        app.with(&thief.token, "POST", "/auth/change-email", Some(asked))
            .await
            .status,
        202
    );
    let change_token = post.token("verify_new_email", 1).await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    assert_eq!(
        app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": NEW })
        )
        .await
        .status,
        200
    );
    app.post("/auth/verify-email", json!({ "token": change_token }))
        .await
        .refused(400, "invalid_token");
}

async fn pages_of_other_origins_clear_no_cookies(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.refresh.enabled = true))
        .await;
    for (path, status) in [("/auth/logout", 200), ("/auth/refresh", 401)] {
        for (header, value, clears) in [
            ("origin", "https://evil.test", false),
            ("sec-fetch-site", "cross-site", false),
            ("sec-fetch-site", "same-origin", true),
        ] {
            // A form on a page of another site sends no `SameSite` cookies.
            let reply = app.raw("POST", path, &[(header, value)], "").await;
            assert_eq!(
                (reply.status, reply.headers.contains_key("set-cookie")),
                (status, clears),
                "{path} {header}: {reply:?}"
            );
        }
    }
}

async fn forged_refresh_tokens_count_against_no_account(store: Store) {
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.refresh.enabled = true))
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    let real = made.text("refreshToken");
    let (head, mac) = real.split_at(real.len() - 2);
    let forged = format!("{head}{}", if mac == "AA" { "AB" } else { "AA" });
    let renew = async |token: &str| {
        app.post("/auth/refresh", json!({ "refreshToken": token }))
            .await
    };
    for _ in 0..40 {
        let refused = renew(&forged).await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (401, &Json::from("refresh_invalid")),
            "{refused:?}"
        );
    }
    assert_eq!(renew(&real).await.status, 200);
}
