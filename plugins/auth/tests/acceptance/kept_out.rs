//! A stolen session cannot block actions that the owner takes by mail, and does not use up the
//! owner's limits.

use linchpin_auth::Limit;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::between::{At, PausingStore};
use crate::cases;
use crate::concurrent_endings::Gate;
use crate::email::{assert_verified, change, changing, verify};
use crate::factor::{Phone, app_with, enrol};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    a_reset_concurrent_with_changes_of_the_profile_succeeds,
    a_reset_concurrent_with_changes_of_the_password_succeeds,
    a_first_link_concurrent_with_changes_of_the_profile_succeeds,
    an_undo_link_concurrent_with_changes_of_the_profile_succeeds,
    an_ended_session_adds_no_passkey,
    text_messages_are_counted_by_session,
    set_ups_are_counted_by_session,
    mails_of_all_sessions_are_counted_together,
);

const NEW: &str = "amber-walrus-17-dune";

/// Changes the profile, as a thief may do repeatedly to make the calls of the owner fail.
async fn change_display_name(app: &Server, thief: &SignedIn) {
    assert_eq!(
        app.send(thief, "PATCH", "/auth/me", json!({ "displayName": "Ada" }))
            .await
            .status,
        200
    );
}

fn assert_reset(reply: &Reply) {
    assert_eq!(
        (reply.status, reply.text("message").as_str()),
        (200, "The password was set. Sign in with it."),
        "{reply:?}"
    );
}

async fn a_reset_concurrent_with_changes_of_the_profile_succeeds(store: Store) {
    let (gate, post) = (Gate::default(), Post::default());
    let app = store
        .app_with(|auth| post.on(auth).hooks(gate.clone()))
        .await;
    let thief = app.register("ada@x.test").await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let reset = json!({ "token": post.token("password_reset", 1).await, "password": NEW });
    assert_reset(
        &gate
            .while_paused(
                app.post("/auth/reset-password", reset),
                change_display_name(&app, &thief),
            )
            .await,
    );
    app.me(&thief.token).await.refused(401, "unauthorized");
    // A change of the profile does not prevent a change of the password in the owner's session
    // either.
    let owner = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": NEW }),
        )
        .await
        .signed_in();
    let thief = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": NEW }),
        )
        .await
        .signed_in();
    let set = json!({ "currentPassword": NEW, "password": GOOD });
    let set = gate
        .while_paused(
            app.send(&owner, "POST", "/auth/set-password", set),
            change_display_name(&app, &thief),
        )
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    app.me(&thief.token).await.refused(401, "unauthorized");
}

/// A thief who knows the password changes it repeatedly.
async fn a_reset_concurrent_with_changes_of_the_password_succeeds(store: Store) {
    let (gate, post) = (Gate::default(), Post::default());
    let app = store
        .app_with(|auth| post.on(auth).hooks(gate.clone()))
        .await;
    let thief = app.register("ada@x.test").await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    let reset = json!({ "token": post.token("password_reset", 1).await, "password": NEW });
    const THIEF_PASSWORD: &str = "cedar-otter-44-mill";
    let change_password = async |from: &str, to: &str| {
        let set = app
            .send(
                &thief,
                "POST",
                "/auth/set-password",
                json!({ "currentPassword": from, "password": to }),
            )
            .await;
        assert_eq!(set.status, 200, "{set:?}");
    };
    change_password(GOOD, THIEF_PASSWORD).await;
    assert_reset(
        &gate
            .while_paused(
                app.post("/auth/reset-password", reset.clone()),
                change_password(THIEF_PASSWORD, GOOD),
            )
            .await,
    );
    app.me(&thief.token).await.refused(401, "unauthorized");
    let login = async |password: &str| {
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": password }),
        )
        .await
        .status
    };
    assert_eq!(
        (
            login(NEW).await,
            login(GOOD).await,
            login(THIEF_PASSWORD).await
        ),
        (200, 401, 401)
    );
    app.post("/auth/reset-password", reset)
        .await
        .refused(400, "invalid_token");
}

async fn a_first_link_concurrent_with_changes_of_the_profile_succeeds(store: Store) {
    let (gate, post) = (Gate::default(), Post::default());
    let with = |auth| {
        post.on(auth)
            .hooks(gate.clone())
            .configure(|config| config.auth.magic_link.enabled = true)
    };
    let app = store.app_with(with).await;
    let thief = app.register("ada@x.test").await;
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let link = json!({ "token": post.token("magic_link", 1).await });
    let owner = gate
        .while_paused(
            app.post("/auth/magic-link/verify", link),
            change_display_name(&app, &thief),
        )
        .await;
    assert_eq!(owner.status, 200, "{owner:?}");
    app.me(&thief.token).await.refused(401, "unauthorized");
}

async fn an_undo_link_concurrent_with_changes_of_the_profile_succeeds(store: Store) {
    let post = Post::default();
    let (app, between) = PausingStore::app(&store, |auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 1).await,
        post.token("verify_new_email", 1).await,
    );
    assert_verified(&verify(&app, &token).await);
    app.me(&thief.token).await;
    // The first statement reads the account, the second checks whether the address is free.
    assert_verified(
        &between
            .meanwhile(
                At::any("User", 2),
                verify(&app, &undo),
                change_display_name(&app, &thief),
            )
            .await,
    );
    app.me(&thief.token).await.refused(401, "unauthorized");
    assert_eq!(app.login("ada@x.test").await.id, thief.id);
}

/// A session that ends during the registration of a passkey adds no passkey, even if the account
/// already has one.
async fn an_ended_session_adds_no_passkey(store: Store) {
    let post = Post::default();
    let with =
        |auth| with_passkeys(post.on(auth)).configure(|config| config.auth.mfa.enabled = true);
    let (app, between) = PausingStore::app(&store, with).await;
    let thief = app.register("ada@example.test").await;
    let mut owner_passkey = Authenticator::p256();
    app.register_passkey(&thief.token, &mut owner_passkey).await;
    let (options, token) = app.login_options().await;
    let owner = app
        .passkey_login(&token, &owner_passkey.assert(&options))
        .await
        .signed_in();
    let (options, registration) = app.register_options(&thief.token).await;
    let body = json!({ "registrationToken": registration, "attestationResponse": Authenticator::p256().register(&options) });
    let logout = async {
        assert_eq!(
            app.with(&thief.token, "POST", "/auth/logout", None)
                .await
                .status,
            200
        );
    };
    let added = app.send(&thief, "POST", "/auth/mfa/webauthn/register", body);
    between
        .meanwhile(At::any("OneTime", 1), added, logout)
        .await
        .refused(401, "unauthorized");
    let passkeys = app
        .get(&owner.token, "/auth/mfa/webauthn/credentials")
        .await
        .json();
    assert_eq!(
        passkeys["credentials"].as_array().map(Vec::len),
        Some(1),
        "{passkeys}"
    );
}

/// Requests a text message with a code.
async fn request_text_message(app: &Server, who: &SignedIn) -> Reply {
    app.send(
        who,
        "POST",
        "/auth/reauth/challenge",
        json!({ "method": "sms" }),
    )
    .await
}

async fn text_messages_are_counted_by_session(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let many_messages = |auth| {
        phone.on(auth).configure(|config| {
            config.auth.rate_limit.buckets.insert(
                "smsSendIp".to_owned(),
                Limit {
                    max: 100,
                    window_seconds: 86_400,
                },
            );
        })
    };
    let app = app_with(&store, &post, many_messages).await;
    let owner = app.register("ada@x.test").await;
    let (_, recovery) = enrol(&app, &owner).await;
    let setup = app
        .send(
            &owner,
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
        )
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": phone.code(1).await.1 });
    let set_up = app
        .send(&owner, "POST", "/auth/mfa/sms/verify-setup", body)
        .await;
    assert_eq!(set_up.status, 200, "{set_up:?}");
    let mut thieves = Vec::new();
    for code in &recovery[..3] {
        let session = app.verify(&app.challenged("ada@x.test").await, code).await;
        assert_eq!(session.status, 200, "{session:?}");
        thieves.push(session.signed_in());
    }
    for _ in 0..5 {
        assert_eq!(request_text_message(&app, &thieves[0]).await.status, 200);
    }
    request_text_message(&app, &thieves[0])
        .await
        .refused(429, "rate_limited");
    assert_eq!(
        request_text_message(&app, &owner).await.status,
        200,
        "the owner has a separate limit"
    );
    // All sessions together are limited to fifteen messages, of which seven were sent.
    for thief in &thieves[1..] {
        for _ in 0..5 {
            request_text_message(&app, thief).await;
        }
    }
    request_text_message(&app, &owner)
        .await
        .refused(429, "rate_limited");
    phone.code(15).await;
    // The limit for a phone number that is being set up counts all callers together, because the
    // number may belong to another person.
    app.advance(3600).await;
    for n in 0..6 {
        let who = app.register(&format!("{n}@x.test")).await;
        let asked = app
            .send(
                &who,
                "POST",
                "/auth/mfa/sms/enable",
                json!({ "phone": "+4930999999" }),
            )
            .await;
        assert_eq!(asked.status, if n < 5 { 200 } else { 429 }, "{asked:?}");
    }
    phone.code(20).await;
    assert_eq!(phone.count(), 20);
}

/// Set-ups of factors, changes of the address and deletions are counted by session, too.
async fn set_ups_are_counted_by_session(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.email_verification.enabled = true)
    })
    .await;
    let owner = app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    let thief = app.login("ada@x.test").await;
    let wrong = json!({ "email": "new@x.test", "password": "wrong-otter-91-lamp" });
    let deletion = json!({ "password": "wrong-otter-91-lamp" });
    for (method, path, body, proved) in [
        ("POST", "/auth/mfa/setup", json!({}), json!({})),
        ("POST", "/auth/mfa/email-otp/enable", json!({}), json!({})),
        (
            "POST",
            "/auth/change-email",
            wrong,
            json!({ "email": "new@x.test", "password": GOOD }),
        ),
        ("DELETE", "/auth/me", deletion, json!({ "password": GOOD })),
    ] {
        for _ in 0..10 {
            app.send(&thief, method, path, body.clone()).await;
        }
        app.send(&thief, method, path, body)
            .await
            .refused(429, "rate_limited");
        let owner_reply = app.send(&owner, method, path, proved).await;
        assert!(
            matches!(owner_reply.status, 200 | 202),
            "{path}: {owner_reply:?}"
        );
    }
}

/// Repeated sign-ins do not raise the number of mails to other addresses.
async fn mails_of_all_sessions_are_counted_together(store: Store) {
    let post = Post::default();
    let with_limits = |auth: linchpin_auth::Auth| {
        auth.configure(|config| {
            config.auth.email_verification.enabled = true;
            for name in ["mfaEnableUser", "deleteAccountUser"] {
                config.auth.rate_limit.buckets.insert(
                    name.to_owned(),
                    Limit {
                        max: 12,
                        window_seconds: 3600,
                    },
                );
            }
        })
    };
    let app = app_with(&store, &post, with_limits).await;
    app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    for (method, path, expected) in [
        ("POST", "/auth/change-email", 30),
        ("POST", "/auth/mfa/email-otp/enable", 12),
        ("DELETE", "/auth/me", 12),
    ] {
        let mut passed = 0;
        for session in 0..4 {
            let who = app.login("ada@x.test").await;
            for n in 0..10 {
                let body = match path {
                    "/auth/change-email" => {
                        json!({ "email": format!("victim-{session}-{n}@y.test"), "password": GOOD })
                    }
                    "/auth/me" => json!({ "password": "wrong-otter-91-lamp" }),
                    _ => json!({}),
                };
                let asked = app.send(&who, method, path, body).await;
                passed += usize::from(asked.status != 429);
            }
        }
        assert_eq!(passed, expected, "{path}");
    }
    post.only("verify_new_email", 30).await;
}
