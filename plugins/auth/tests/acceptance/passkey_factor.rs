//! Passkeys as a second factor and as proof, and their removal.

use linchpin_auth::{Auth, UserVerification};
use serde_json::{Value as Json, json};

use crate::authenticator::{Authenticator, PRESENT};
use crate::cases;
use crate::factor::{app_with, code_at, enrol, texts};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    a_passkey_is_a_second_factor,
    a_passkey_challenge_is_answered_once,
    a_repeated_passkey_request_sends_no_code,
    a_passkey_without_user_verification_is_one_factor,
    a_single_passkey_proves_its_account,
    a_passkey_steps_up,
    a_removed_passkey_does_not_sign_in,
    removing_the_last_passkey_removes_the_factor,
    removing_all_factors_removes_passkeys_but_not_the_last_way_in,
    two_concurrent_removals_mail_one_notice,
);

const CREDENTIALS: &str = "/auth/mfa/webauthn/credentials";

/// An app with passkeys and other second factors.
async fn app(store: &Store, post: &Post) -> Server {
    app_with(store, post, with_passkeys).await
}

async fn answer(app: &Server, token: &str, response: &Json) -> Reply {
    app.post(
        "/auth/mfa/verify",
        json!({ "mfaToken": token, "webauthnResponse": response }),
    )
    .await
}

async fn a_passkey_is_a_second_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    let (options, registration) = app.register_options(&ada.token).await;
    let body = json!({ "registrationToken": registration, "attestationResponse": authenticator.register(&options) });
    let made = app
        .send(&ada, "POST", "/auth/mfa/webauthn/register", body)
        .await;
    let id = made.text("credentialId");
    assert_eq!(
        (made.status, texts(&made.json()["recoveryCodes"]).len()),
        (200, 10),
        "{made:?}"
    );
    let methods = app.get(&ada.token, "/auth/mfa/methods").await.json();
    assert_eq!(
        (&methods["methods"], &methods["recoveryCodesLeft"]),
        (&json!(["webauthn"]), &json!(10))
    );
    // A second passkey creates no new recovery codes and sends no second mail about the factor.
    app.register_passkey(&ada.token, &mut Authenticator::ed25519())
        .await;
    post.only("passkey_added", 2).await;
    assert_eq!(
        post.all("mfa_enabled", 1).await[0].vars["method"],
        "webauthn"
    );
    let challenge = app.try_login("ada@example.test").await;
    assert!(!challenge.headers.contains_key("set-cookie"));
    let challenge = challenge.json();
    assert_eq!(
        (&challenge["mfaMethods"], &challenge["recoveryAvailable"]),
        (&json!(["webauthn"]), &json!(true))
    );
    let options = &challenge["webauthnOptions"];
    let allowed: Vec<&Json> = options["allowCredentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert!(
        allowed.len() == 2 && allowed.contains(&&json!(id)),
        "{options}"
    );
    assert_eq!(options["userVerification"], "preferred");
    // The account is known: the browser need not send the user handle.
    let response =
        authenticator.assert_changed(options, |d| (d.user_handle, d.flags) = (None, PRESENT));
    let token = challenge["mfaToken"].as_str().unwrap();
    let done = answer(&app, token, &response).await;
    assert_eq!(
        (done.status, done.text("userId")),
        (200, ada.id.clone()),
        "{done:?}"
    );
    assert!(done.cookie("__Host-token").is_some());
    assert_eq!(
        app.get(&done.text("token"), "/__test/protected/mfa")
            .await
            .status,
        200
    );
    answer(&app, token, &response)
        .await
        .refused(401, "invalid_challenge");
    // A sign-in with a passkey that verifies its user needs no second factor.
    let (options, token) = app.login_options().await;
    let done = app
        .passkey_login(&token, &authenticator.assert(&options))
        .await;
    assert!(
        done.status == 200 && !done.text("token").is_empty(),
        "{done:?}"
    );
}

/// A repeated request for a passkey sends no code, so requests for passkeys and for codes are
/// limited separately.
async fn a_repeated_passkey_request_sends_no_code(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&ada.token, &mut authenticator).await;
    let setup = app
        .send(&ada, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": post.code(1).await });
    assert_eq!(
        app.send(&ada, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );
    let resend = async |token: &str, method: &str| {
        app.post(
            "/auth/mfa/resend",
            json!({ "mfaToken": token, "method": method }),
        )
        .await
    };
    for _ in 0..12 {
        let token = app.challenged("ada@example.test").await;
        assert_eq!(resend(&token, "webauthn").await.status, 200);
    }
    for _ in 0..10 {
        let token = app.challenged("ada@example.test").await;
        assert_eq!(resend(&token, "emailOtp").await.status, 200);
    }
    let token = app.challenged("ada@example.test").await;
    resend(&token, "emailOtp")
        .await
        .refused(429, "rate_limited");
    let again = resend(&token, "webauthn").await;
    let done = answer(
        &app,
        &token,
        &authenticator.assert(&again.json()["webauthnOptions"]),
    )
    .await;
    assert_eq!(done.status, 200, "{done:?}");
}

async fn a_passkey_challenge_is_answered_once(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let (ada, eve) = (
        app.register("ada@example.test").await,
        app.register("eve@example.test").await,
    );
    let (mut ada_key, mut eve_key) = (Authenticator::p256(), Authenticator::p256());
    app.register_passkey(&ada.token, &mut ada_key).await;
    app.register_passkey(&eve.token, &mut eve_key).await;
    let challenge = app.try_login("ada@example.test").await.json();
    let token = challenge["mfaToken"].as_str().unwrap().to_owned();
    let options = challenge["webauthnOptions"].clone();
    // Another user's passkey is refused. It uses up the options, so the right passkey is refused
    // too.
    answer(&app, &token, &eve_key.assert(&options))
        .await
        .refused(401, "invalid_code");
    answer(&app, &token, &ada_key.assert(&options))
        .await
        .refused(401, "invalid_code");
    let resend = async || {
        let again = app
            .post(
                "/auth/mfa/resend",
                json!({ "mfaToken": token, "method": "webauthn" }),
            )
            .await;
        assert_eq!(again.status, 200, "{again:?}");
        again.json()["webauthnOptions"].clone()
    };
    let first = resend().await;
    assert_ne!(first["challenge"], options["challenge"]);
    let second = resend().await;
    answer(&app, &token, &ada_key.assert(&first))
        .await
        .refused(401, "invalid_code");
    answer(&app, &token, &ada_key.assert(&second))
        .await
        .refused(401, "invalid_code");
    let third = resend().await;
    assert_eq!(
        answer(&app, &token, &ada_key.assert(&third)).await.status,
        200
    );
    // A response to a challenge for one purpose is refused for another purpose.
    let challenge = app.try_login("ada@example.test").await.json();
    let token = challenge["mfaToken"].as_str().unwrap();
    let response = ada_key.assert(&challenge["webauthnOptions"]);
    app.passkey_login(token, &response)
        .await
        .refused(401, "invalid_challenge");
    let (options, passkey) = app.login_options().await;
    answer(&app, &passkey, &ada_key.assert(&options))
        .await
        .refused(401, "invalid_challenge");
    for malformed in [
        json!(null),
        json!({}),
        json!([]),
        json!("x"),
        json!({ "id": 1 }),
    ] {
        let token = app.challenged("ada@example.test").await;
        let reply = answer(&app, &token, &malformed).await;
        assert!(matches!(reply.status, 400 | 401), "{malformed}: {reply:?}");
    }
}

/// Without user verification a passkey is one factor, and cannot also be the second factor.
async fn a_passkey_without_user_verification_is_one_factor(store: Store) {
    let post = Post::default();
    let preferred = |auth: Auth| {
        with_passkeys(auth)
            .configure(|c| c.auth.passkeys.user_verification = UserVerification::Preferred)
    };
    let app = app_with(&store, &post, preferred).await;
    let ada = app.register("ada@example.test").await;
    let (mut touch, mut other) = (Authenticator::p256(), Authenticator::p256());
    touch.flags = PRESENT;
    app.register_passkey(&ada.token, &mut touch).await;
    let sign_in = async |touch: &mut Authenticator| {
        let (options, token) = app.login_options().await;
        app.passkey_login(&token, &touch.assert(&options)).await
    };
    // The passkey is the only factor, so no other one is required.
    let alone = sign_in(&mut touch).await;
    assert!(!alone.text("token").is_empty(), "{alone:?}");
    app.get(&alone.text("token"), "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    // A second use of the same passkey is not a step-up.
    let session = alone.signed_in();
    let asked = app
        .send(
            &session,
            "POST",
            "/auth/reauth/challenge",
            json!({ "method": "webauthn" }),
        )
        .await
        .json();
    let response = touch.assert(&asked["webauthnOptions"]);
    let body = json!({ "method": "webauthn", "reauthToken": asked["reauthToken"], "webauthnResponse": response });
    app.send(&session, "POST", "/auth/step-up", body)
        .await
        .refused(403, "factor_not_allowed");
    let (secret, _) = enrol(&app, &ada).await;
    let challenge = sign_in(&mut touch).await.json();
    assert_eq!(
        (&challenge["token"], &challenge["mfaMethods"]),
        (&json!(""), &json!(["totp"])),
        "{challenge}"
    );
    assert!(challenge.get("webauthnOptions").is_none());
    let token = challenge["mfaToken"].as_str().unwrap();
    let again = app
        .post(
            "/auth/mfa/resend",
            json!({ "mfaToken": token, "method": "webauthn" }),
        )
        .await;
    again.refused(400, "method_unavailable");
    app.advance(30).await;
    let done = app.verify(token, &code_at(&app, &secret, 0)).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        app.get(&done.text("token"), "/__test/protected/mfa")
            .await
            .status,
        200
    );
    // Another passkey is a second factor. The same one is not, even if it signs the challenge.
    let other_id = app.register_passkey(&ada.token, &mut other).await;
    let challenge = sign_in(&mut touch).await.json();
    assert_eq!(
        challenge["mfaMethods"],
        json!(["totp", "webauthn"]),
        "{challenge}"
    );
    let options = &challenge["webauthnOptions"];
    let allowed: Vec<&Json> = options["allowCredentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(allowed, [&json!(other_id)]);
    let token = challenge["mfaToken"].as_str().unwrap();
    answer(&app, token, &touch.assert(options))
        .await
        .refused(401, "invalid_code");
    let again = app
        .post(
            "/auth/mfa/resend",
            json!({ "mfaToken": token, "method": "webauthn" }),
        )
        .await;
    assert_eq!(
        answer(&app, token, &other.assert(&again.json()["webauthnOptions"]))
            .await
            .status,
        200
    );
}

/// An account has one passkey without user verification, and no mail address. After a sign-in with
/// this passkey, the user can change the factors of the account.
async fn a_single_passkey_proves_its_account(store: Store) {
    let by_name = |auth: Auth| {
        with_passkeys(auth).configure(|config| {
            config.auth.primary_field = linchpin_auth::PrimaryField::Username;
            config.auth.passkeys.user_verification = UserVerification::Preferred;
            config.auth.mfa.enabled = true;
        })
    };
    let app = store.app_with(by_name).await;
    let service = app.provided::<linchpin_auth::AuthService>();
    let made = service
        .create_user(linchpin_auth::NewUser::new("ada-l"))
        .await
        .unwrap();
    let first = service.sign_in(&made.id).await.unwrap();
    let mut touch = Authenticator::p256();
    touch.flags = PRESENT;
    let (options, registration) = app.register_options(first.expose()).await;
    let body = json!({ "registrationToken": registration, "attestationResponse": touch.register(&options) });
    let made = app
        .with(
            first.expose(),
            "POST",
            "/auth/mfa/webauthn/register",
            Some(body),
        )
        .await;
    let (only, codes) = (
        made.text("credentialId"),
        texts(&made.json()["recoveryCodes"]),
    );
    let sign_in = async |touch: &mut Authenticator| {
        let (options, token) = app.login_options().await;
        app.passkey_login(&token, &touch.assert(&options))
            .await
            .signed_in()
    };
    // While the account has unused recovery codes, the proof needs one of them, because a thief who
    // has the passkey does not have the codes.
    let mut session = sign_in(&mut touch).await;
    app.send(&session, "DELETE", "/auth/me", json!({}))
        .await
        .refused(403, "step_up_required");
    app.with(
        &session.token,
        "POST",
        "/auth/mfa/webauthn/register-options",
        None,
    )
    .await
    .refused(403, "step_up_required");
    for code in &codes {
        let proved = app
            .send(
                &session,
                "POST",
                "/auth/step-up",
                json!({ "method": "recovery", "code": code }),
            )
            .await;
        assert_eq!(proved.status, 200, "{proved:?}");
        session = proved.signed_in();
    }
    let ada = sign_in(&mut touch).await;
    // The sign-in is one factor and not a step-up.
    app.get(&ada.token, "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.get(&ada.token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    let second = app
        .register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    let path = format!("{CREDENTIALS}/{second}");
    assert_eq!(app.send(&ada, "DELETE", &path, json!({})).await.status, 200);
    // The sign-in is a sufficient proof for five minutes.
    app.advance(301).await;
    app.send(&ada, "DELETE", &format!("{CREDENTIALS}/{only}"), json!({}))
        .await
        .refused(403, "step_up_required");
    let ada = sign_in(&mut touch).await;
    let (secret, _) = enrol(&app, &ada).await;
    // If the account has an authenticator app, a change needs a proof with this app.
    app.send(&ada, "DELETE", "/auth/me", json!({}))
        .await
        .refused(403, "step_up_required");
    app.advance(30).await;
    assert_eq!(
        app.send(
            &ada,
            "DELETE",
            "/auth/me",
            json!({ "code": code_at(&app, &secret, 0) })
        )
        .await
        .status,
        202
    );
    // If the account has a password, the sign-in with one passkey is not a sufficient proof.
    let mut new = linchpin_auth::NewUser::new("bob-b");
    new.password = Some(linchpin_auth::SecretText::new(GOOD));
    let bob = service.create_user(new).await.unwrap();
    let first = service.sign_in(&bob.id).await.unwrap();
    let mut touch = Authenticator::p256();
    touch.flags = PRESENT;
    app.register_passkey(first.expose(), &mut touch).await;
    let bob = sign_in(&mut touch).await;
    app.with(
        &bob.token,
        "POST",
        "/auth/mfa/webauthn/register-options",
        None,
    )
    .await
    .refused(403, "step_up_required");
}

async fn a_passkey_steps_up(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&ada.token, &mut authenticator).await;
    app.get(&ada.token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    let asked = app
        .send(
            &ada,
            "POST",
            "/auth/reauth/challenge",
            json!({ "method": "webauthn" }),
        )
        .await
        .json();
    assert_eq!(
        asked["availableMethods"],
        json!(["webauthn", "recovery"]),
        "{asked}"
    );
    let (token, options) = (&asked["reauthToken"], &asked["webauthnOptions"]);
    let step_up = |response: Json| json!({ "method": "webauthn", "reauthToken": token, "webauthnResponse": response });
    app.send(
        &ada,
        "POST",
        "/auth/step-up",
        json!({ "method": "password", "password": GOOD }),
    )
    .await
    .refused(403, "factor_not_allowed");
    let other = {
        let challenge = app.try_login("ada@example.test").await.json();
        let response = authenticator.assert(&challenge["webauthnOptions"]);
        answer(&app, challenge["mfaToken"].as_str().unwrap(), &response)
            .await
            .signed_in()
    };
    let response = authenticator.assert(options);
    app.send(&other, "POST", "/auth/step-up", step_up(response.clone()))
        .await
        .refused(401, "invalid_challenge");
    let done = app
        .send(&ada, "POST", "/auth/step-up", step_up(response.clone()))
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    let stepped_up = done.signed_in();
    assert_eq!(
        app.get(&stepped_up.token, "/__test/protected/step-up")
            .await
            .status,
        200
    );
    app.send(&stepped_up, "POST", "/auth/step-up", step_up(response))
        .await
        .refused(401, "invalid_challenge");
}

/// Signs in a user without a password by a mailed link.
async fn without_password(app: &Server, post: &Post, email: &str) -> SignedIn {
    let seed =
        json!({ "identifier": email, "password": null, "roles": null, "emailVerified": true });
    assert_eq!(app.post("/__test/users", seed).await.status, 200);
    let before = post.count("magic_link");
    assert_eq!(
        app.post("/auth/magic-link/request", json!({ "identifier": email }))
            .await
            .status,
        200
    );
    let token = post.token("magic_link", before + 1).await;
    let reply = app
        .post("/auth/magic-link/verify", json!({ "token": token }))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.signed_in()
}

async fn a_removed_passkey_does_not_sign_in(store: Store) {
    let post = Post::default();
    let links = |auth: Auth| {
        post.on(with_passkeys(auth))
            .configure(|config| config.auth.magic_link.enabled = true)
    };
    let app = store.app_with(links).await;
    // The last way to sign in cannot be removed.
    let eve = without_password(&app, &post, "eve@example.test").await;
    let mut only = Authenticator::p256();
    let id = app.register_passkey(&eve.token, &mut only).await;
    let path = format!("{CREDENTIALS}/{id}");
    app.send(&eve, "DELETE", &path, json!({}))
        .await
        .refused(409, "last_credential");
    app.send(&eve, "DELETE", "/auth/mfa/webauthn", json!({}))
        .await
        .refused(409, "last_credential");
    // With a second passkey, the first one can be removed. After that, the second one cannot be
    // removed.
    let second = app
        .register_passkey(&eve.token, &mut Authenticator::p256())
        .await;
    app.send(&eve, "DELETE", "/auth/mfa/webauthn", json!({}))
        .await
        .refused(409, "last_credential");
    assert_eq!(app.send(&eve, "DELETE", &path, json!({})).await.status, 200);
    app.send(
        &eve,
        "DELETE",
        &format!("{CREDENTIALS}/{second}"),
        json!({}),
    )
    .await
    .refused(409, "last_credential");
    let (options, token) = app.login_options().await;
    app.passkey_login(&token, &only.assert(&options))
        .await
        .refused(401, "webauthn_failed");
    // An account with a password needs a proof, a step-up, or a recent sign-in.
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    let id = app.register_passkey(&ada.token, &mut authenticator).await;
    let path = format!("{CREDENTIALS}/{id}");
    app.advance(301).await;
    app.send(&ada, "DELETE", &path, json!({}))
        .await
        .refused(403, "step_up_required");
    app.send(&ada, "DELETE", &path, json!({ "password": "wrong" }))
        .await
        .refused(401, "invalid_credentials");
    app.send(&eve, "DELETE", &path, json!({}))
        .await
        .refused(404, "not_found");
    app.raw("DELETE", &path, &[], "")
        .await
        .refused(401, "unauthorized");
    assert_eq!(
        app.send(&ada, "DELETE", &path, json!({ "password": GOOD }))
            .await
            .status,
        200
    );
    app.send(&ada, "DELETE", &path, json!({ "password": GOOD }))
        .await
        .refused(404, "not_found");
    app.send(
        &ada,
        "DELETE",
        "/auth/mfa/webauthn",
        json!({ "password": GOOD }),
    )
    .await
    .refused(404, "not_found");
    post.only("passkey_removed", 2).await;
    let events = app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert!(events.contains("auth:passkey.removed"), "{events}");
    for _ in 0..2 {
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await;
    }
    assert_eq!(
        app.send(
            &ada,
            "DELETE",
            "/auth/mfa/webauthn",
            json!({ "password": GOOD })
        )
        .await
        .status,
        200
    );
    assert_eq!(
        app.get(&ada.token, CREDENTIALS).await.json()["credentials"],
        json!([])
    );
}

async fn removing_the_last_passkey_removes_the_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = app.register("ada@example.test").await;
    let ids = [
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await,
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await,
    ];
    app.prove(&ada).await;
    let methods = async || app.get(&ada.token, "/auth/mfa/methods").await.json();
    assert_eq!(
        app.send(
            &ada,
            "DELETE",
            &format!("{CREDENTIALS}/{}", ids[0]),
            json!({})
        )
        .await
        .status,
        200
    );
    assert_eq!(methods().await["methods"], json!(["webauthn"]));
    assert_eq!(
        app.send(
            &ada,
            "DELETE",
            &format!("{CREDENTIALS}/{}", ids[1]),
            json!({})
        )
        .await
        .status,
        200
    );
    assert_eq!(
        (
            &methods().await["methods"],
            &methods().await["recoveryCodesLeft"]
        ),
        (&json!([]), &json!(0))
    );
    assert!(
        !app.try_login("ada@example.test")
            .await
            .text("token")
            .is_empty()
    );
    app.stop().await;
    let required =
        |auth: Auth| with_passkeys(auth).configure(|config| config.auth.mfa.required = true);
    let app = app_with(&store, &post, required).await;
    let bob = app.register("bob@example.test").await;
    app.get(&bob.token, "/__test/protected/user")
        .await
        .refused(403, "mfa_setup_required");
    let id = app
        .register_passkey(&bob.token, &mut Authenticator::p256())
        .await;
    assert_eq!(
        app.get(&bob.token, "/__test/protected/user").await.status,
        200
    );
    app.prove(&bob).await;
    app.send(&bob, "DELETE", &format!("{CREDENTIALS}/{id}"), json!({}))
        .await
        .refused(403, "mfa_required");
}

async fn removing_all_factors_removes_passkeys_but_not_the_last_way_in(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = app.register("ada@example.test").await;
    app.register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    enrol(&app, &ada).await;
    app.prove(&ada).await;
    assert_eq!(
        app.send(&ada, "DELETE", "/auth/mfa", json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        app.get(&ada.token, CREDENTIALS).await.json()["credentials"],
        json!([])
    );
    assert!(
        !app.try_login("ada@example.test")
            .await
            .text("token")
            .is_empty()
    );
    // The last way to sign in cannot be removed.
    let eve = without_password(&app, &post, "eve@example.test").await;
    app.register_passkey(&eve.token, &mut Authenticator::p256())
        .await;
    app.prove(&eve).await;
    app.send(&eve, "DELETE", "/auth/mfa", json!({}))
        .await
        .refused(409, "last_credential");
    assert_eq!(
        app.get(&eve.token, "/auth/mfa/methods").await.json()["methods"],
        json!(["webauthn"])
    );
}

async fn two_concurrent_removals_mail_one_notice(store: Store) {
    let post = Post::default();
    let links = |auth: Auth| {
        post.on(with_passkeys(auth))
            .configure(|config| config.auth.magic_link.enabled = true)
    };
    let app = store.app_with(links).await;
    let eve = without_password(&app, &post, "eve@example.test").await;
    for _ in 0..5 {
        let mut ids = Vec::new();
        while app.get(&eve.token, CREDENTIALS).await.json()["credentials"]
            .as_array()
            .unwrap()
            .len()
            < 2
        {
            app.register_passkey(&eve.token, &mut Authenticator::p256())
                .await;
        }
        for one in app.get(&eve.token, CREDENTIALS).await.json()["credentials"]
            .as_array()
            .unwrap()
        {
            ids.push(one["credentialId"].as_str().unwrap().to_owned());
        }
        let paths: Vec<String> = ids.iter().map(|id| format!("{CREDENTIALS}/{id}")).collect();
        let all = paths
            .iter()
            .map(|path| app.send(&eve, "DELETE", path, json!({})));
        let statuses: Vec<u16> = futures_util::future::join_all(all)
            .await
            .iter()
            .map(|reply| reply.status)
            .collect();
        assert_eq!(
            statuses.iter().filter(|status| **status == 200).count(),
            1,
            "{statuses:?}"
        );
        assert_eq!(
            app.get(&eve.token, CREDENTIALS).await.json()["credentials"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}
