//! An attacker signs up with another person's address. Everything that the attacker set up is
//! removed when the owner of the mailbox proves the address.

use linchpin_auth::ProviderSection;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::between::{At, PausingStore};
use crate::factor::{Phone, app_with, code_at, enrol};
use crate::issuer::{APP, Browser, StartedFlow, callback_parameter, enter};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Server, SignedIn, Store};
use crate::standin::{CLIENT, SECRET, StandIn};

const EMAIL: &str = "ada@example.test";
const NEW: &str = "amber-walrus-17-dune";

/// The credentials of an attacker who signed up with another person's address.
struct Thief {
    who: SignedIn,
    device: String,
    passkey: Authenticator,
    secret: String,
    recovery: Vec<String>,
    /// The secret of another authenticator app that is being set up.
    pending_secret: String,
    /// The options and token of a passkey that is being registered.
    registration: (serde_json::Value, String),
}

async fn thief(app: &Server, phone: &Phone) -> Thief {
    let made = app
        .post(
            "/auth/register",
            json!({ "email": EMAIL, "password": GOOD }),
        )
        .await;
    let (who, device) = (made.signed_in(), made.text("deviceToken"));
    let (secret, recovery) = enrol(app, &who).await;
    let mut passkey = Authenticator::p256();
    app.register_passkey(&who.token, &mut passkey).await;
    let setup = app
        .send(
            &who,
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
        )
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": phone.code(1).await.1 });
    assert_eq!(
        app.send(&who, "POST", "/auth/mfa/sms/verify-setup", body)
            .await
            .status,
        200
    );
    // A step-up, which the following set-ups need.
    app.advance(30).await;
    let body = json!({ "method": "totp", "code": code_at(app, &secret, 0) });
    let who = app
        .send(&who, "POST", "/auth/step-up", body)
        .await
        .signed_in();
    let pending_secret = app
        .with(&who.token, "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let registration = app.register_options(&who.token).await;
    assert_eq!(
        app.send(&who, "DELETE", "/auth/me", json!({})).await.status,
        202
    );
    Thief {
        who,
        device,
        passkey,
        secret,
        recovery,
        pending_secret,
        registration,
    }
}

/// Checks that no credential of the attacker works.
async fn check_thief_has_no_access(app: &Server, mut thief: Thief) {
    app.me(&thief.who.token).await.refused(401, "unauthorized");
    app.try_login(EMAIL)
        .await
        .refused(401, "invalid_credentials");
    let (options, token) = app.login_options().await;
    app.passkey_login(&token, &thief.passkey.assert(&options))
        .await
        .refused(401, "webauthn_failed");
    let (options, token) = thief.registration;
    let body = json!({ "registrationToken": token, "attestationResponse": thief.passkey.register(&options) });
    app.send(&thief.who, "POST", "/auth/mfa/webauthn/register", body)
        .await
        .refused(401, "unauthorized");
}

/// Checks that the owner of the mailbox is signed in to an account without anything that the
/// attacker set up.
async fn check_owner_starts_fresh(app: &Server, post: &Post, owner: &SignedIn, thief: &Thief) {
    let methods = app.get(&owner.token, "/auth/mfa/methods").await.json();
    assert_eq!(
        (&methods["methods"], &methods["recoveryCodesLeft"]),
        (&json!([]), &json!(0))
    );
    let passkeys = app
        .get(&owner.token, "/auth/mfa/webauthn/credentials")
        .await
        .json();
    assert_eq!(passkeys["credentials"], json!([]));
    let me = app.me(&owner.token).await.json();
    assert_eq!(
        (
            &me["mfaEnabled"],
            &me["emailVerified"],
            &me["deletionScheduledFor"]
        ),
        (&json!(false), &json!(true), &json!(null))
    );
    let sessions = app.get(&owner.token, "/auth/sessions").await.json();
    assert_eq!(
        sessions["sessions"].as_array().map(Vec::len),
        Some(1),
        "{sessions}"
    );
    // A set-up that the attacker started cannot be completed in the owner's session.
    let code = code_at(app, &thief.pending_secret, 0);
    app.send(
        owner,
        "POST",
        "/auth/mfa/verify-setup",
        json!({ "code": code }),
    )
    .await
    .refused(400, "setup_not_started");
    post.all("deletion_cancelled", 1).await;
    for method in ["totp", "sms", "webauthn"] {
        assert!(
            post.all("mfa_disabled", 3)
                .await
                .iter()
                .any(|mail| mail.vars["method"] == method),
            "{method}"
        );
    }
}

async fn app_with_factors(store: &Store, post: &Post, phone: &Phone) -> Server {
    let change = |auth: linchpin_auth::Auth| {
        phone.on(with_passkeys(auth)).configure(|config| {
            config.auth.email_verification.enabled = false;
            config.auth.mfa.trust_device_seconds = 3600;
        })
    };
    app_with(store, post, change).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proving_the_mailbox_removes_credentials_of_the_unproved_account() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let thief = thief(&app, &phone).await;
    app.post("/auth/magic-link/request", json!({ "identifier": EMAIL }))
        .await;
    let owner = app
        .post(
            "/auth/magic-link/verify",
            json!({ "token": post.token("magic_link", 1).await }),
        )
        .await;
    assert_eq!(
        (owner.status, owner.json()["mfaRequired"].clone()),
        (200, json!(null)),
        "{owner:?}"
    );
    let owner = owner.signed_in();
    check_owner_starts_fresh(&app, &post, &owner, &thief).await;
    check_thief_has_no_access(&app, thief).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_that_proves_the_mailbox_removes_credentials_of_a_stranger() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let thief = thief(&app, &phone).await;
    app.post("/auth/forgot-password", json!({ "email": EMAIL }))
        .await;
    let reset = json!({ "token": post.token("password_reset", 1).await, "password": NEW });
    assert_eq!(app.post("/auth/reset-password", reset).await.status, 200);
    // The attacker's device is not recognised any more.
    let body = json!({ "email": EMAIL, "password": NEW }).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", thief.device.as_str()),
    ];
    let owner = app.raw("POST", "/auth/login", &headers, &body).await;
    assert_eq!(
        (owner.status, owner.json()["mfaRequired"].clone()),
        (200, json!(null)),
        "{owner:?}"
    );
    assert_ne!(
        owner.text("deviceToken"),
        "",
        "the device is not recognised"
    );
    let owner = owner.signed_in();
    check_owner_starts_fresh(&app, &post, &owner, &thief).await;
    // The attacker's recovery codes and authenticator app are not accepted as a proof.
    for body in [
        json!({ "code": thief.recovery[0] }),
        json!({ "code": code_at(&app, &thief.secret, 1) }),
    ] {
        app.send(&owner, "DELETE", "/auth/me", body)
            .await
            .refused(403, "factor_not_allowed");
    }
    check_thief_has_no_access(&app, thief).await;
}

/// A user who proved the mailbox keeps all factors: access to a mailbox alone does not bypass
/// second factors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_link_or_reset_keeps_the_factors() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let owner = app.register(EMAIL).await;
    app.change(&owner.id, json!({ "emailVerified": true }))
        .await;
    let (secret, _) = enrol(&app, &owner).await;
    app.post("/auth/forgot-password", json!({ "email": EMAIL }))
        .await;
    let reset = json!({ "token": post.token("password_reset", 1).await, "password": GOOD });
    assert_eq!(app.post("/auth/reset-password", reset).await.status, 200);
    app.advance(30).await;
    let done = app
        .verify(&app.challenged(EMAIL).await, &code_at(&app, &secret, 0))
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    app.post("/auth/magic-link/request", json!({ "identifier": EMAIL }))
        .await;
    let link = app
        .post(
            "/auth/magic-link/verify",
            json!({ "token": post.token("magic_link", 1).await }),
        )
        .await;
    assert_eq!(link.json()["mfaRequired"], json!(true), "{link:?}");
}

/// A user set up factors before the app required proved addresses. The link that proves the address
/// confirms the sign-up. It confirms the later factors only if the user opens the link in a session
/// of the account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_confirms_a_sign_up_does_not_confirm_later_factors() {
    for session_in in [None, Some("authorization"), Some("cookie")] {
        let in_session = session_in.is_some();
        let (store, post, phone) = (Store::sqlite(), Post::default(), Phone::default());
        let app = app_with_factors(&store, &post, &phone).await;
        let who = app.register(EMAIL).await;
        app.advance(1).await;
        enrol(&app, &who).await;
        let mut passkey = Authenticator::p256();
        app.register_passkey(&who.token, &mut passkey).await;
        app.stop().await;
        let change = |auth: linchpin_auth::Auth| {
            phone
                .on(with_passkeys(auth))
                .configure(|c| c.auth.email_verification.enabled = true)
        };
        let app = app_with(&store, &post, change).await;
        assert_eq!(
            app.post("/auth/resend-verification", json!({ "email": EMAIL }))
                .await
                .status,
            200
        );
        let token = json!({ "token": post.token("verify_email", 1).await });
        let mut headers = vec![("content-type", "application/json")];
        let credential = match session_in {
            Some("cookie") => format!("__Host-token={}", who.token),
            _ => format!("Bearer {}", who.token),
        };
        headers.extend(session_in.map(|header| (header, credential.as_str())));
        let clicked = app
            .raw("POST", "/auth/verify-email", &headers, &token.to_string())
            .await;
        assert_eq!(clicked.status, 200, "{clicked:?}");
        let me = app.me(&who.token).await.json();
        let methods = if in_session {
            json!(["totp", "webauthn"])
        } else {
            json!([])
        };
        assert_eq!(
            (&me["emailVerified"], &me["mfaMethods"]),
            (&json!(true), &methods),
            "{session_in:?}: the password and the session of the sign-up stay"
        );
        let (options, token) = app.login_options().await;
        let entered = app.passkey_login(&token, &passkey.assert(&options)).await;
        assert_eq!(
            entered.status,
            if in_session { 200 } else { 401 },
            "{entered:?}"
        );
        let entered = app.try_login(EMAIL).await;
        assert_eq!(
            (entered.status, entered.json()["mfaRequired"] == true),
            (200, in_session),
            "{entered:?}"
        );
        if !in_session {
            post.all("mfa_disabled", 2).await;
            post.all("passkey_removed", 1).await;
        }
    }
}

/// The link of a concealed sign-up does not confirm factors that the account got before sign-ups
/// were concealed. They are removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_a_concealed_sign_up_removes_earlier_factors() {
    let (store, post, phone) = (Store::sqlite(), Post::default(), Phone::default());
    let app = app_with_factors(&store, &post, &phone).await;
    let who = app.register(EMAIL).await;
    app.advance(1).await;
    enrol(&app, &who).await;
    app.stop().await;
    let app = app_with(&store, &post, |auth| {
        auth.configure(|c| {
            (
                c.auth.email_verification.enabled,
                c.auth.conceal_registration,
            ) = (true, true);
        })
    })
    .await;
    assert_eq!(
        app.post("/auth/resend-verification", json!({ "email": EMAIL }))
            .await
            .status,
        200
    );
    let token = post.token("verify_email", 1).await;
    let owner = app
        .post("/auth/verify-and-login", json!({ "token": token }))
        .await;
    assert_eq!(
        (owner.status, owner.json()["mfaRequired"].clone()),
        (200, json!(null)),
        "{owner:?}"
    );
    let me = app.me(&owner.signed_in().token).await.json();
    assert_eq!(
        (&me["emailVerified"], &me["mfaMethods"]),
        (&json!(true), &json!([]))
    );
}

/// A code of a provider's sign-in is invalid if it was issued before the mailbox was proved: the
/// link to that provider is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_code_from_before_the_proof_is_invalid() {
    let (post, standin) = (Post::default(), StandIn::start().await);
    let provider = ProviderSection::new(CLIENT)
        .secret(SECRET.to_owned())
        .issuer(standin.url.as_str());
    let (app, between) = PausingStore::app(&Store::memory(), |auth| {
        post.on(auth)
            .provider("stand", provider)
            .configure(|config| {
                config.auth.public_url = Some(APP.to_owned());
                config.auth.magic_link.enabled = true;
            })
    })
    .await;
    app.to_the_present().await;
    standin.behave(|behaviour| drop(behaviour.claims.insert("email".to_owned(), json!(EMAIL))));
    let thief = enter(&app, "stand", "").await;
    assert_eq!(
        (thief.status, thief.json()["emailVerified"].clone()),
        (200, json!(false)),
        "{thief:?}"
    );
    let flow = StartedFlow::from(&app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let owner = async {
        app.post("/auth/magic-link/request", json!({ "identifier": EMAIL }))
            .await;
        let token = post.token("magic_link", 1).await;
        assert_eq!(
            app.post("/auth/magic-link/verify", json!({ "token": token }))
                .await
                .status,
            200
        );
    };
    let back = between
        .meanwhile(At::insert("OneTime", 1), flow.back(&app, &callback), owner)
        .await;
    flow.exchange(&app, &callback_parameter(&back, "code"))
        .await
        .refused(401, "invalid_code");
    app.me(&thief.text("token"))
        .await
        .refused(401, "unauthorized");
}

/// The mailed link confirms the credential of the sign-up (a password or a provider), so this
/// credential is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_up_by_a_provider_is_confirmed() {
    let (post, standin) = (Post::default(), StandIn::start().await);
    let provider = ProviderSection::new(CLIENT)
        .secret(SECRET.to_owned())
        .issuer(standin.url.as_str());
    let with = |auth| {
        post.on(auth)
            .provider("stand", provider)
            .configure(|config| {
                config.auth.public_url = Some(APP.to_owned());
                config.auth.email_verification.enabled = true;
            })
    };
    let app = Store::memory().app_with(with).await;
    app.to_the_present().await;
    let made = enter(&app, "stand", "").await;
    assert_eq!(
        (made.status, made.json()["emailVerified"].clone()),
        (200, json!(false)),
        "{made:?}"
    );
    let clicked = app
        .post(
            "/auth/verify-email",
            json!({ "token": post.token("verify_email", 1).await }),
        )
        .await;
    assert_eq!(clicked.status, 200, "{clicked:?}");
    let me = app.me(&made.text("token")).await.json();
    assert_eq!(
        (&me["emailVerified"], &me["providers"]),
        (&json!(true), &json!(["stand"]))
    );
    assert_eq!(
        enter(&app, "stand", "").await.text("userId"),
        made.text("userId")
    );
}
