//! Second factors: authenticator apps and recovery codes.

use serde_json::json;

use crate::cases;
use crate::factor::{Enrolled, app, app_with, code_at, enrol, enrolled, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Server, Store, claims};

cases! {
    every_store:
        an_authenticator_app_is_set_up_with_a_code,
        a_set_up_allows_five_wrong_codes_and_ten_minutes,
        an_unproved_address_sets_up_no_factor, a_sign_in_with_a_second_factor_returns_a_challenge,
        a_challenge_allows_a_limited_number_of_codes,
        a_code_works_once, a_code_works_once_in_every_order_of_uses,
        codes_are_accepted_one_step_early_or_late, a_second_set_up_replaces_the_secret_on_success,
        recovery_codes_work_once, removing_factors_needs_proof,
        guesses_of_many_challenges_are_counted_together,
        a_challenge_ends_when_the_account_changes, a_token_of_one_purpose_is_refused_for_others,
        an_administrator_removes_factors, arbitrary_answers_are_refused;
    one_store: disabled_factors_have_no_routes;
}

const VERIFY_SETUP: &str = "/auth/mfa/verify-setup";

async fn an_authenticator_app_is_set_up_with_a_code(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let me = app.register("a+b@x.test").await;
    app.send(&me, "POST", VERIFY_SETUP, json!({ "code": "123456" }))
        .await
        .refused(400, "setup_not_started");
    let none = app.get(&me.token, "/auth/mfa/methods").await;
    assert_eq!(
        none.json(),
        json!({ "methods": [], "recoveryCodesLeft": 0, "required": false })
    );
    let setup = app.with(&me.token, "POST", "/auth/mfa/setup", None).await;
    let (secret, uri) = (setup.text("secret"), setup.text("uri"));
    assert_eq!(
        (secret.len(), setup.text("expiresAt").as_str()),
        (32, "2026-03-04T05:16:07.008Z")
    );
    assert_eq!(
        uri,
        format!(
            "otpauth://totp/Acme:a%2Bb%40x.test?secret={secret}&issuer=Acme&algorithm=SHA1&digits=6&period=30"
        )
    );
    // No factor is required before the app has been verified.
    assert_eq!(
        app.try_login("a+b@x.test").await.json()["mfaRequired"],
        json!(null)
    );
    let code = code_at(&app, &secret, 0);
    let done = app
        .send(&me, "POST", VERIFY_SETUP, json!({ "code": code }))
        .await;
    let codes = texts(&done.json()["recoveryCodes"]);
    assert_eq!((done.status, codes.len()), (200, 10), "{done:?}");
    assert!(
        codes.iter().all(|code| code.len() == 14
            && code.as_bytes()[4] == b'-'
            && code.as_bytes()[9] == b'-'),
        "{codes:?}"
    );
    let methods = app.get(&me.token, "/auth/mfa/methods").await;
    assert_eq!(
        methods.json(),
        json!({ "methods": ["totp"], "recoveryCodesLeft": 10, "required": false })
    );
    let profile = app.me(&me.token).await.json();
    assert_eq!(
        (profile["mfaEnabled"].clone(), profile["mfaMethods"].clone()),
        (json!(true), json!(["totp"]))
    );
    assert_eq!(post.all("mfa_enabled", 1).await[0].vars["method"], "totp");
    // The code is used up: it completes no second set-up.
    app.send(&me, "POST", VERIFY_SETUP, json!({ "code": code }))
        .await
        .refused(400, "setup_not_started");
    let events = app.get(&me.token, "/auth/activity").await.json();
    assert!(
        events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["event"] == "auth:mfa.enabled"),
        "{events}"
    );
}

async fn a_set_up_allows_five_wrong_codes_and_ten_minutes(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let me = app.register("a@x.test").await;
    let begin = async || {
        app.advance(1).await;
        app.with(&me.token, "POST", "/auth/mfa/setup", None)
            .await
            .text("secret")
    };
    let (older, secret) = (begin().await, begin().await);
    // A new set-up replaces the previous one.
    app.send(
        &me,
        "POST",
        VERIFY_SETUP,
        json!({ "code": code_at(&app, &older, 0) }),
    )
    .await
    .refused(401, "invalid_code");
    let code = code_at(&app, &secret, 0);
    for _ in 0..4 {
        app.send(&me, "POST", VERIFY_SETUP, json!({ "code": wrong(&code) }))
            .await
            .refused(401, "invalid_code");
    }
    app.send(&me, "POST", VERIFY_SETUP, json!({ "code": code }))
        .await
        .refused(400, "setup_not_started");
    let secret = begin().await;
    app.advance(600).await;
    app.send(
        &me,
        "POST",
        VERIFY_SETUP,
        json!({ "code": code_at(&app, &secret, 0) }),
    )
    .await
    .refused(400, "setup_not_started");
}

async fn an_unproved_address_sets_up_no_factor(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.email_verification.enabled = true)
    })
    .await;
    let me = app.register("a@x.test").await;
    app.with(&me.token, "POST", "/auth/mfa/setup", None)
        .await
        .refused(403, "email_not_verified");
    app.with(&me.token, "POST", "/auth/mfa/email-otp/enable", None)
        .await
        .refused(403, "email_not_verified");
    app.change(&me.id, json!({ "emailVerified": true })).await;
    enrol(&app, &me).await;
}

async fn a_sign_in_with_a_second_factor_returns_a_challenge(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, linchpin_auth::Auth::refresh_tokens).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let asked = app.try_login("a@x.test").await;
    let body = asked.json();
    assert_eq!(
        (
            asked.status,
            body["token"].clone(),
            body["mfaRequired"].clone()
        ),
        (200, json!(""), json!(true))
    );
    assert_eq!(
        (
            body["mfaMethods"].clone(),
            body["recoveryAvailable"].clone()
        ),
        (json!(["totp"]), json!(true))
    );
    assert_eq!(
        (body["userId"].clone(), body["refreshToken"].clone()),
        (json!(ada.who.id), json!(null))
    );
    assert!(
        asked.headers.get("set-cookie").is_none() && asked.text("mfaToken").len() == 43,
        "{asked:?}"
    );
    let sessions = app.get(&ada.who.token, "/auth/sessions").await.json();
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "there is no session before the second factor"
    );
    app.me(&asked.text("mfaToken"))
        .await
        .refused(401, "unauthorized");
    let code = code_at(&app, &ada.secret, 0);
    let done = app.verify(&asked.text("mfaToken"), &code).await;
    assert_eq!(
        (done.status, done.text("userId")),
        (200, ada.who.id.clone()),
        "{done:?}"
    );
    assert!(done.cookie("__Host-token").is_some() && !done.signed_in().refresh.is_empty());
    assert_eq!(app.me(&done.signed_in().token).await.status, 200);
    let sessions = app
        .get(&done.signed_in().token, "/auth/sessions")
        .await
        .json();
    let current = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["current"] == true)
        .unwrap()
        .clone();
    assert_eq!(current["amr"], json!(["pwd", "otp", "mfa"]));
    assert_eq!(
        app.get(&done.signed_in().token, "/__test/protected/mfa")
            .await
            .status,
        200
    );
    app.advance(30).await;
    app.verify(&asked.text("mfaToken"), &code_at(&app, &ada.secret, 0))
        .await
        .refused(401, "invalid_challenge");
    // A challenge expires, too.
    let late = app.challenged("a@x.test").await;
    app.advance(300).await;
    app.verify(&late, &code_at(&app, &ada.secret, 0))
        .await
        .refused(401, "invalid_challenge");
    // After the mailbox is verified, a sign-in by link needs the second factor too.
    app.change(&ada.who.id, json!({ "emailVerified": true }))
        .await;
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "a@x.test" }),
    )
    .await;
    let link = app
        .post(
            "/auth/magic-link/verify",
            json!({ "token": post.token("magic_link", 1).await }),
        )
        .await;
    assert_eq!(
        (link.status, link.json()["mfaRequired"].clone()),
        (200, json!(true)),
        "{link:?}"
    );
    assert!(link.headers.get("set-cookie").is_none());
}

async fn a_challenge_allows_a_limited_number_of_codes(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let token = app.challenged("a@x.test").await;
    for left in ["4 tries left", "3 tries left"] {
        let reply = app.verify(&token, &wrong(&code)).await;
        reply.refused(401, "invalid_code");
        assert_eq!(reply.json()["details"][0]["message"], left, "{reply:?}");
    }
    assert_eq!(app.verify(&token, &code).await.status, 200);
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let token = app.challenged("a@x.test").await;
    for _ in 0..5 {
        app.verify(&token, &wrong(&code))
            .await
            .refused(401, "invalid_code");
    }
    app.verify(&token, &code)
        .await
        .refused(401, "invalid_challenge");
    // Another challenge works.
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &code)
            .await
            .status,
        200
    );
}

async fn a_code_works_once(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    // The code of the set-up counts as used.
    app.verify(
        &app.challenged("a@x.test").await,
        &code_at(&app, &ada.secret, 0),
    )
    .await
    .refused(401, "invalid_code");
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &code)
            .await
            .status,
        200
    );
    let second = app.challenged("a@x.test").await;
    app.verify(&second, &code)
        .await
        .refused(401, "invalid_code");
    assert_eq!(
        app.verify(&second, &code_at(&app, &ada.secret, 1))
            .await
            .status,
        200
    );
    // After the code of a later step was used, the code of an earlier step is refused.
    app.advance(30).await;
    app.verify(
        &app.challenged("a@x.test").await,
        &code_at(&app, &ada.secret, -1),
    )
    .await
    .refused(401, "invalid_code");
    app.verify(
        &app.challenged("a@x.test").await,
        &code_at(&app, &ada.secret, 0),
    )
    .await
    .refused(401, "invalid_code");
}

// One code is sent to a sign-in, to a step-up and as a proof. The first use succeeds, in every
// order; the others are refused.
async fn a_code_works_once_in_every_order_of_uses(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let mut who = ada.who.clone();
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        // After this time, the counter of failed codes is also reset.
        app.advance(900).await;
        let code = code_at(&app, &ada.secret, 0);
        for (nth, usage) in order.into_iter().enumerate() {
            let reply = match usage {
                0 => app.verify(&app.challenged("a@x.test").await, &code).await,
                1 => {
                    app.send(
                        &who,
                        "POST",
                        "/auth/step-up",
                        json!({ "method": "totp", "code": code }),
                    )
                    .await
                }
                _ => {
                    app.send(
                        &who,
                        "POST",
                        "/auth/mfa/recovery-codes",
                        json!({ "code": code }),
                    )
                    .await
                }
            };
            if nth > 0 {
                reply.refused(401, "invalid_code");
                continue;
            }
            assert_eq!(reply.status, 200, "{order:?} {reply:?}");
            if usage == 1 {
                who = reply.signed_in();
            }
        }
    }
}

async fn codes_are_accepted_one_step_early_or_late(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    for (steps, accepted) in [(-2, false), (2, false), (-1, true), (1, true)] {
        app.advance(120).await;
        let reply = app
            .verify(
                &app.challenged("a@x.test").await,
                &code_at(&app, &ada.secret, steps),
            )
            .await;
        assert_eq!(
            reply.status,
            if accepted { 200 } else { 401 },
            "{steps}: {reply:?}"
        );
    }
}

async fn a_second_set_up_replaces_the_secret_on_success(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let setup = app
        .with(&ada.who.token, "POST", "/auth/mfa/setup", None)
        .await;
    let new_secret = setup.text("secret");
    app.advance(30).await;
    assert_eq!(
        app.verify(
            &app.challenged("a@x.test").await,
            &code_at(&app, &ada.secret, 0)
        )
        .await
        .status,
        200,
        "the old secret works until the new one is set up"
    );
    let pending_challenge = app.challenged("a@x.test").await;
    let done = app
        .send(
            &ada.who,
            "POST",
            VERIFY_SETUP,
            json!({ "code": code_at(&app, &new_secret, 0) }),
        )
        .await;
    assert_eq!(
        (done.status, done.json()["recoveryCodes"].clone()),
        (200, json!([])),
        "a replaced factor keeps the recovery codes"
    );
    app.advance(30).await;
    // A pending sign-in with the old factor must start again.
    app.verify(&pending_challenge, &code_at(&app, &ada.secret, 0))
        .await
        .refused(401, "invalid_challenge");
    let token = app.challenged("a@x.test").await;
    app.verify(&token, &code_at(&app, &ada.secret, 0))
        .await
        .refused(401, "invalid_code");
    assert_eq!(
        app.verify(&token, &code_at(&app, &new_secret, 0))
            .await
            .status,
        200
    );
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &ada.recovery[0])
            .await
            .status,
        200
    );
    app.advance(1200).await;
    app.with(&ada.who.token, "POST", "/auth/mfa/setup", None)
        .await
        .refused(403, "step_up_required");
}

async fn recovery_codes_work_once(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let typed = ada.recovery[3].to_lowercase().replace('-', "");
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &typed)
            .await
            .status,
        200
    );
    app.verify(&app.challenged("a@x.test").await, &ada.recovery[3])
        .await
        .refused(401, "invalid_code");
    assert_eq!(post.all("recovery_code_used", 1).await[0].vars["left"], "9");
    // A code belongs to one account.
    let bob = enrolled(&app, "b@x.test").await;
    app.verify(&app.challenged("b@x.test").await, &ada.recovery[4])
        .await
        .refused(401, "invalid_code");
    app.advance(30).await;
    let renewed = app
        .send(
            &ada.who,
            "POST",
            "/auth/mfa/recovery-codes",
            json!({ "code": code_at(&app, &ada.secret, 0) }),
        )
        .await;
    let new_codes = texts(&renewed.json()["recoveryCodes"]);
    assert_eq!((renewed.status, new_codes.len()), (200, 10), "{renewed:?}");
    post.all("recovery_codes_regenerated", 1).await;
    app.verify(&app.challenged("a@x.test").await, &ada.recovery[5])
        .await
        .refused(401, "invalid_code");
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &new_codes[0])
            .await
            .status,
        200
    );
    post.only("recovery_code_used", 2).await;
    // Without a factor there are no recovery codes.
    let plain = app.register("c@x.test").await;
    app.send(
        &plain,
        "POST",
        "/auth/mfa/recovery-codes",
        json!({ "password": GOOD }),
    )
    .await
    .refused(409, "mfa_not_enabled");
    drop(bob);
}

async fn removing_factors_needs_proof(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let me = app.login_with(&ada).await;
    app.advance(301).await;
    app.with(&me.token, "DELETE", "/auth/mfa", None)
        .await
        .refused(403, "step_up_required");
    app.send(&me, "DELETE", "/auth/mfa", json!({}))
        .await
        .refused(403, "step_up_required");
    app.send(&me, "DELETE", "/auth/mfa", json!({ "password": GOOD }))
        .await
        .refused(403, "factor_not_allowed");
    let code = code_at(&app, &ada.secret, 0);
    app.send(&me, "DELETE", "/auth/mfa", json!({ "code": wrong(&code) }))
        .await
        .refused(401, "invalid_code");
    app.send(
        &me,
        "DELETE",
        "/auth/mfa/email-otp",
        json!({ "code": code }),
    )
    .await
    .refused(409, "mfa_not_enabled");
    // A refusal consumes nothing, and a proof in a body is not a step-up.
    assert_eq!(
        app.send(&me, "DELETE", "/auth/mfa", json!({ "code": code }))
            .await
            .status,
        200
    );
    app.get(&me.token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    let plain = app.try_login("a@x.test").await;
    assert_eq!(
        (plain.status, plain.json()["mfaRequired"].clone()),
        (200, json!(null))
    );
    let methods = app.get(&me.token, "/auth/mfa/methods").await;
    assert_eq!(
        methods.json(),
        json!({ "methods": [], "recoveryCodesLeft": 0, "required": false })
    );
    assert_eq!(post.all("mfa_disabled", 1).await[0].vars["method"], "totp");
    app.send(&me, "DELETE", "/auth/mfa", json!({ "password": GOOD }))
        .await
        .refused(409, "mfa_not_enabled");
    // A recent sign-in with both factors is a sufficient proof.
    enrol(&app, &me).await;
    let again = Enrolled {
        secret: enrol_again(&app, &me.token).await,
        ..ada
    };
    let session = app.login_with(&again).await;
    assert_eq!(
        app.with(&session.token, "DELETE", "/auth/mfa/totp", None)
            .await
            .status,
        200
    );
}

/// Replaces the authenticator app by another one.
async fn enrol_again(app: &Server, token: &str) -> String {
    app.advance(1).await;
    let secret = app
        .with(token, "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let done = app
        .with(
            token,
            "POST",
            VERIFY_SETUP,
            Some(json!({ "code": code_at(app, &secret, 0) })),
        )
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    secret
}

async fn guesses_of_many_challenges_are_counted_together(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let challenge = app.try_login("a@x.test").await;
    assert!(
        challenge.text("deviceToken").is_empty(),
        "a challenge returns no device token"
    );
    let token = app.challenged("a@x.test").await;
    let recognised = app
        .verify(&token, &ada.recovery[0])
        .await
        .text("deviceToken");
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    for _ in 0..3 {
        let token = app.challenged("a@x.test").await;
        for _ in 0..5 {
            app.verify(&token, &wrong(&code))
                .await
                .refused(401, "invalid_code");
        }
    }
    let token = app.challenged("a@x.test").await;
    let full = app.verify(&token, &code).await;
    full.refused(429, "rate_limited");
    assert_eq!(full.header("retry-after"), "900");
    post.only("mfa_under_attack", 1).await;
    // The owner uses a recognised device.
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", recognised.as_str()),
    ];
    let body = json!({ "mfaToken": token, "code": code }).to_string();
    assert_eq!(
        app.raw("POST", "/auth/mfa/verify", &headers, &body)
            .await
            .status,
        200
    );
    app.advance(900).await;
    assert_eq!(
        app.verify(
            &app.challenged("a@x.test").await,
            &code_at(&app, &ada.secret, 0)
        )
        .await
        .status,
        200
    );
}

async fn a_challenge_ends_when_the_account_changes(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let me = app.login_with(&ada).await;
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let password = "amber-walrus-17-dune";
    let token = app.challenged("a@x.test").await;
    assert_eq!(
        app.send(
            &me,
            "POST",
            "/auth/set-password",
            json!({ "password": password, "currentPassword": GOOD })
        )
        .await
        .status,
        200
    );
    app.verify(&token, &code)
        .await
        .refused(401, "invalid_challenge");
    let back = json!({ "password": GOOD, "currentPassword": password });
    assert_eq!(
        app.send(&me, "POST", "/auth/set-password", back)
            .await
            .status,
        200
    );
    app.verify(&token, &code)
        .await
        .refused(401, "invalid_challenge");
    // The challenge ends if a factor is removed or added.
    let token = app.challenged("a@x.test").await;
    assert_eq!(
        app.with(&me.token, "DELETE", "/auth/mfa", None)
            .await
            .status,
        200
    );
    app.verify(&token, &code)
        .await
        .refused(401, "invalid_challenge");
    let (secret, _) = enrol(&app, &me).await;
    app.advance(30).await;
    // A suspension ends the challenge for good.
    let token = app.challenged("a@x.test").await;
    app.change(&me.id, json!({ "suspended": true })).await;
    let refused = app.verify(&token, &code_at(&app, &secret, 0)).await;
    assert!(matches!(refused.status, 401 | 403), "{refused:?}");
    app.change(&me.id, json!({ "suspended": false })).await;
    app.verify(&token, &code_at(&app, &secret, 0))
        .await
        .refused(401, "invalid_challenge");
    assert_eq!(
        app.verify(
            &app.challenged("a@x.test").await,
            &code_at(&app, &secret, 0)
        )
        .await
        .status,
        200
    );
}

async fn a_token_of_one_purpose_is_refused_for_others(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let login = app.challenged("a@x.test").await;
    let setup_token = app
        .send(&ada.who, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let mailed = post.code(1).await;
    let code = code_at(&app, &ada.secret, 0);
    app.verify(&setup_token, &mailed)
        .await
        .refused(401, "invalid_challenge");
    app.verify(&setup_token, &code)
        .await
        .refused(401, "invalid_challenge");
    let setup = |token: &str, code: &str| json!({ "setupToken": token, "code": code });
    app.send(
        &ada.who,
        "POST",
        "/auth/mfa/email-otp/verify-setup",
        setup(&login, &code),
    )
    .await
    .refused(401, "invalid_challenge");
    for (token, code) in [(&login, &code), (&setup_token, &mailed)] {
        let proof = json!({ "reauthToken": token, "code": code });
        app.send(&ada.who, "DELETE", "/auth/mfa", proof)
            .await
            .refused(401, "invalid_challenge");
        app.post("/auth/magic-link/verify", json!({ "token": token }))
            .await
            .refused(400, "invalid_token");
        app.post(
            "/auth/reset-password",
            json!({ "token": token, "password": GOOD }),
        )
        .await
        .refused(400, "invalid_token");
    }
    // A set-up belongs to its user.
    let bob = app.register("b@x.test").await;
    app.send(
        &bob,
        "POST",
        "/auth/mfa/email-otp/verify-setup",
        setup(&setup_token, &mailed),
    )
    .await
    .refused(401, "invalid_challenge");
    assert_eq!(
        app.send(
            &ada.who,
            "POST",
            "/auth/mfa/email-otp/verify-setup",
            setup(&setup_token, &mailed)
        )
        .await
        .status,
        200
    );
}

async fn an_administrator_removes_factors(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.admin_role = Some("admin".into()))
    })
    .await;
    let admin = app.admin("root@x.test").await;
    let ada = enrolled(&app, "a@x.test").await;
    let path = format!("/auth/admin/users/{}/reset-mfa", ada.who.id);
    app.with(&ada.who.token, "POST", &path, None)
        .await
        .refused(403, "forbidden");
    let pending_challenge = app.challenged("a@x.test").await;
    let done = app.with(&admin.token, "POST", &path, None).await;
    assert_eq!(
        (done.status, done.json()),
        (
            200,
            json!({ "ok": true, "message": "The second factors were removed." })
        )
    );
    app.verify(&pending_challenge, &ada.recovery[0])
        .await
        .refused(401, "invalid_challenge");
    assert_eq!(
        app.try_login("a@x.test").await.json()["mfaRequired"],
        json!(null)
    );
    assert_eq!(post.all("mfa_disabled", 1).await[0].to, "a@x.test");
    app.with(&admin.token, "POST", &path, None)
        .await
        .refused(409, "mfa_not_enabled");
    app.with(
        &admin.token,
        "POST",
        "/auth/admin/users/nobody/reset-mfa",
        None,
    )
    .await
    .refused(404, "not_found");
    let audit = app
        .get(&admin.token, "/auth/admin/audit?event=auth:mfa.disabled")
        .await
        .json();
    assert_eq!(
        audit["items"][0]["details"],
        json!({ "method": "totp", "by": admin.id })
    );
    assert_eq!(app.me(&ada.who.token).await.status, 200, "sessions stay");
}

async fn disabled_factors_have_no_routes(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    for (method, path) in [
        ("POST", "/auth/mfa/setup"),
        ("POST", VERIFY_SETUP),
        ("POST", "/auth/mfa/verify"),
        ("POST", "/auth/mfa/resend"),
        ("GET", "/auth/mfa/methods"),
        ("DELETE", "/auth/mfa"),
        ("POST", "/auth/mfa/recovery-codes"),
        ("POST", "/auth/mfa/email-otp/enable"),
        ("POST", "/auth/mfa/sms/enable"),
    ] {
        assert_eq!(
            app.with(&me.token, method, path, None).await.status,
            404,
            "{method} {path}"
        );
    }
}

async fn arbitrary_answers_are_refused(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let token = app.challenged("a@x.test").await;
    let long = "9".repeat(60_000);
    for body in [
        json!({ "mfaToken": token }),
        json!({ "mfaToken": token, "method": "totp" }),
        json!({ "mfaToken": token, "method": "password", "code": "x" }),
        json!({ "mfaToken": token, "method": "webauthn" }),
        json!({ "mfaToken": token, "code": 123_456 }),
        json!({ "mfaToken": token, "code": null }),
        json!({ "code": "123456" }),
        json!({ "mfaToken": token, "code": "1", "extra": true }),
    ] {
        let reply = app.post("/auth/mfa/verify", body).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    for code in ["", " ", &long, "\u{0}", "１２３４５６", "-12345", "éééééé"] {
        let reply = app.verify(&token, code).await;
        assert!(matches!(reply.status, 400 | 401), "{reply:?}");
    }
    for unknown in ["", "x", &long, &ada.who.token, "../../etc"] {
        app.verify(unknown, "123456")
            .await
            .refused(401, "invalid_challenge");
        app.post("/auth/mfa/resend", json!({ "mfaToken": unknown }))
            .await
            .refused(401, "invalid_challenge");
    }
    let sid = claims(&ada.who.token)["sid"].as_str().unwrap().to_owned();
    app.verify(&sid, "123456")
        .await
        .refused(401, "invalid_challenge");
}
