//! A change of the second factors needs a proof of an existing factor. A session without this proof
//! can neither add a factor nor remove one of the owner.

use linchpin_auth::Auth;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::factor::{Phone, app_with, code_at, enrol};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

const EMAIL: &str = "ada@example.test";
const VERIFY_SETUP: &str = "/auth/mfa/verify-setup";

async fn app_with_factors(store: &Store, post: &Post, phone: &Phone) -> Server {
    let trusting = |auth: Auth| {
        phone
            .on(with_passkeys(auth))
            .configure(|config| config.auth.mfa.trust_device_seconds = 86_400)
    };
    app_with(store, post, trusting).await
}

/// Checks that a session can neither start the set-up of a factor nor remove one.
async fn assert_no_change_allowed(app: &Server, who: &SignedIn) {
    let phone = json!({ "phone": "+4930123456" });
    for (method, path, body) in [
        ("POST", "/auth/mfa/setup", None),
        ("POST", "/auth/mfa/email-otp/enable", None),
        ("POST", "/auth/mfa/sms/enable", Some(phone)),
        ("POST", "/auth/mfa/webauthn/register-options", None),
        ("POST", "/auth/mfa/recovery-codes", Some(json!({}))),
        ("DELETE", "/auth/mfa", Some(json!({}))),
        ("DELETE", "/auth/mfa/totp", Some(json!({}))),
        ("DELETE", "/auth/mfa/webauthn", Some(json!({}))),
        ("DELETE", "/auth/me", Some(json!({}))),
    ] {
        app.with(&who.token, method, path, body)
            .await
            .refused(403, "step_up_required");
    }
    for (method, path) in [
        ("DELETE", "/auth/mfa"),
        ("POST", "/auth/mfa/recovery-codes"),
    ] {
        app.send(who, method, path, json!({ "password": GOOD }))
            .await
            .refused(403, "factor_not_allowed");
    }
}

async fn step_up(app: &Server, who: &SignedIn, secret: &str) -> Reply {
    app.send(
        who,
        "POST",
        "/auth/step-up",
        json!({ "method": "totp", "code": code_at(app, secret, 0) }),
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_from_before_the_first_factor_must_prove_it() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let owner = app.register(EMAIL).await;
    let thief = app.login(EMAIL).await;
    // The thief's earlier proof, a step-up by password, is not a second factor. The set-ups that
    // the thief has started cannot be completed.
    let thief = app
        .send(
            &thief,
            "POST",
            "/auth/step-up",
            json!({ "method": "password", "password": GOOD }),
        )
        .await
        .signed_in();
    assert_eq!(
        app.get(&thief.token, "/__test/protected/step-up")
            .await
            .status,
        200
    );
    let mut passkey = Authenticator::p256();
    let (options, registration) = app.register_options(&thief.token).await;
    let sms_setup = app
        .send(
            &thief,
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
        )
        .await
        .text("setupToken");
    let mail_setup = app
        .send(&thief, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let (secret, _) = enrol(&app, &owner).await;
    app.get(&thief.token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    assert_no_change_allowed(&app, &thief).await;
    let body = json!({ "registrationToken": registration, "attestationResponse": passkey.register(&options) });
    app.send(&thief, "POST", "/auth/mfa/webauthn/register", body)
        .await
        .refused(403, "step_up_required");
    let body = json!({ "setupToken": sms_setup, "code": phone.code(1).await.1 });
    app.send(&thief, "POST", "/auth/mfa/sms/verify-setup", body)
        .await
        .refused(403, "step_up_required");
    let body = json!({ "setupToken": mail_setup, "code": post.code(1).await });
    app.send(&thief, "POST", "/auth/mfa/email-otp/verify-setup", body)
        .await
        .refused(403, "step_up_required");
    let methods = app.get(&owner.token, "/auth/mfa/methods").await.json();
    assert_eq!(methods["methods"], json!(["totp"]));
    // After a proof of the factor, this session may change factors like any other session.
    app.advance(30).await;
    let proved = step_up(&app, &thief, &secret).await.signed_in();
    app.register_passkey(&proved.token, &mut passkey).await;
    assert_eq!(
        app.send(&proved, "DELETE", "/auth/mfa/totp", json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authenticator_set_up_from_before_the_first_factor_is_refused() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let owner = app.register(EMAIL).await;
    let thief = app.login(EMAIL).await;
    let thief_secret = app
        .with(&thief.token, "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    // Wrong codes of another session do not use up the attempts of this set-up.
    for _ in 0..6 {
        app.send(&owner, "POST", VERIFY_SETUP, json!({ "code": "000000" }))
            .await
            .refused(400, "setup_not_started");
    }
    let mut passkey = Authenticator::p256();
    app.register_passkey(&owner.token, &mut passkey).await;
    let code = json!({ "code": code_at(&app, &thief_secret, 0) });
    app.send(&thief, "POST", VERIFY_SETUP, code)
        .await
        .refused(403, "step_up_required");
    assert_eq!(
        app.get(&owner.token, "/auth/mfa/methods").await.json()["methods"],
        json!(["webauthn"])
    );
}

/// An unreadable stored secret counts as a wrong code, not as a server error: a user with another
/// factor can continue with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_secret_counts_as_a_wrong_code() {
    let (store, post, phone) = (Store::sqlite(), Post::default(), Phone::default());
    let app = app_with_factors(&store, &post, &phone).await;
    let (ada, eve) = (
        app.register(EMAIL).await,
        app.register("eve@example.test").await,
    );
    let (secret, recovery) = enrol(&app, &ada).await;
    let (other, _) = enrol(&app, &eve).await;
    app.stop().await;
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); rows = db.execute('SELECT id, sealed FROM auth_factors').fetchall(); \
                  [db.execute('UPDATE auth_factors SET sealed = ? WHERE id = ?', (a[1], b[0])) for a, b in zip(rows, rows[::-1])]; db.commit(); \
                  assert len(rows) == 2";
    let done = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(store.file().unwrap())
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let app = app_with_factors(&store, &post, &phone).await;
    app.advance(30).await;
    let challenge = app.challenged(EMAIL).await;
    for secret in [&secret, &other] {
        app.verify(&challenge, &code_at(&app, secret, 0))
            .await
            .refused(401, "invalid_code");
    }
    assert_eq!(app.verify(&challenge, &recovery[0]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_trusted_device_must_prove_a_factor() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let owner = app.register(EMAIL).await;
    let (secret, recovery) = enrol(&app, &owner).await;
    app.advance(30).await;
    let body = json!({ "mfaToken": app.challenged(EMAIL).await, "code": code_at(&app, &secret, 0), "trustDevice": true });
    let trusted = app.post("/auth/mfa/verify", body).await;
    let device = trusted.text("deviceToken");
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", device.as_str()),
    ];
    let body = json!({ "email": EMAIL, "password": GOOD }).to_string();
    let on_device = app
        .raw("POST", "/auth/login", &headers, &body)
        .await
        .signed_in();
    assert_ne!(
        on_device.token, "",
        "a trusted device needs no second factor"
    );
    assert_no_change_allowed(&app, &on_device).await;
    // A recovery code replaces the factor here too.
    let proof = json!({ "method": "recovery", "code": recovery[0] });
    let proved = app
        .send(&on_device, "POST", "/auth/step-up", proof)
        .await
        .signed_in();
    app.register_passkey(&proved.token, &mut Authenticator::p256())
        .await;
    // A change of the factors ends the trust in the device.
    let other = app.raw("POST", "/auth/login", &headers, &body).await;
    assert_eq!(
        other.json()["mfaRequired"],
        json!(true),
        "the change of the factors ended the trust"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_up_a_factor_proves_it_for_that_session_only() {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with_factors(&Store::memory(), &post, &phone).await;
    let owner = app.register(EMAIL).await;
    let (secret, _) = enrol(&app, &owner).await;
    // No further proof is needed: the first factor was proved by setting it up.
    app.register_passkey(&owner.token, &mut Authenticator::p256())
        .await;
    app.advance(30).await;
    let phone_session = app
        .verify(&app.challenged(EMAIL).await, &code_at(&app, &secret, 0))
        .await
        .signed_in();
    app.register_passkey(&phone_session.token, &mut Authenticator::p256())
        .await;
    // If another session adds a factor, this session stays proved. If another session removes or
    // replaces a factor, this session needs a new proof, because its proof may have used that
    // factor.
    let setup = app
        .send(
            &phone_session,
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
        )
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": phone.code(1).await.1 });
    assert_eq!(
        app.send(&phone_session, "POST", "/auth/mfa/sms/verify-setup", body)
            .await
            .status,
        200
    );
    assert_eq!(
        app.with(&owner.token, "POST", "/auth/mfa/setup", None)
            .await
            .status,
        200
    );
    assert_eq!(
        app.send(&phone_session, "DELETE", "/auth/mfa/sms", json!({}))
            .await
            .status,
        200
    );
    app.with(&owner.token, "POST", "/auth/mfa/setup", None)
        .await
        .refused(403, "step_up_required");
    // A proof in the body allows this removal only.
    app.advance(30).await;
    let proof = json!({ "code": code_at(&app, &secret, 0) });
    assert_eq!(
        app.send(&owner, "DELETE", "/auth/mfa/webauthn", proof)
            .await
            .status,
        200
    );
    app.with(
        &owner.token,
        "POST",
        "/auth/mfa/webauthn/register-options",
        None,
    )
    .await
    .refused(403, "step_up_required");
    app.advance(30).await;
    let proved = step_up(&app, &owner, &secret).await.signed_in();
    assert_eq!(
        app.with(
            &proved.token,
            "POST",
            "/auth/mfa/webauthn/register-options",
            None
        )
        .await
        .status,
        200
    );
    // A session that removed the last factor has not proved the next one.
    assert_eq!(
        app.send(&proved, "DELETE", "/auth/mfa", json!({}))
            .await
            .status,
        200
    );
    enrol(&app, &app.login(EMAIL).await).await;
    app.with(&proved.token, "POST", "/auth/mfa/setup", None)
        .await
        .refused(403, "step_up_required");
}
