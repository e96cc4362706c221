//! Sent codes, required factors and trusted devices.

use serde_json::json;

use crate::cases;
use crate::factor::{Enrolled, Phone, app, app_with, code_at, enrol, enrolled, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    mailed_codes_are_a_second_factor,
    mailed_codes_can_be_added_to_an_authenticator_app,
    code_requests_of_others_do_not_use_up_the_owners_limit,
    a_mailed_code_is_no_second_factor_after_a_mailed_link,
    accounts_without_an_address_get_no_mailed_codes,
    text_messages_are_a_second_factor,
    text_messages_are_limited,
    disabled_text_messages_leave_recovery_codes,
    a_required_factor_must_be_set_up_first,
    a_phone_alone_does_not_satisfy_a_required_factor,
    trusted_devices_skip_the_second_factor,
);

/// An attacker with the password requests codes up to the limit; this does not affect the owner.
async fn code_requests_of_others_do_not_use_up_the_owners_limit(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    let (me, device) = (made.signed_in(), made.text("deviceToken"));
    enrol(&app, &me).await;
    enrol_mailed_codes(&app, &post, &me).await;
    let resend = async |token: &str| {
        app.post(
            "/auth/mfa/resend",
            json!({ "mfaToken": token, "method": "emailOtp" }),
        )
        .await
    };
    // Refusals by the limit of a challenge do not count for the limit of its user.
    let token = app.challenged("a@x.test").await;
    for _ in 0..3 {
        assert_eq!(resend(&token).await.status, 200);
    }
    for _ in 0..20 {
        resend(&token).await.refused(429, "rate_limited");
    }
    let mut left = 7;
    while left > 0 {
        let token = app.challenged("a@x.test").await;
        for _ in 0..left.min(3) {
            assert_eq!(resend(&token).await.status, 200, "{left}");
            left -= 1;
        }
    }
    let token = app.challenged("a@x.test").await;
    resend(&token).await.refused(429, "rate_limited");
    // The owner's recognised device has a separate counter, and refusals on it do not use up the
    // attempts of the owner's challenge.
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", device.as_str()),
    ];
    let body = json!({ "mfaToken": token, "method": "emailOtp" }).to_string();
    for _ in 0..3 {
        assert_eq!(
            app.raw("POST", "/auth/mfa/resend", &headers, &body)
                .await
                .status,
            200
        );
    }
    app.raw("POST", "/auth/mfa/resend", &headers, &body)
        .await
        .refused(429, "rate_limited");
    post.only("email_otp", 14).await;
}

/// Accounts are identified by user names.
async fn accounts_without_an_address_get_no_mailed_codes(store: Store) {
    let post = Post::default();
    let named = |auth: linchpin_auth::Auth| {
        auth.configure(|config| {
            config.auth.primary_field = linchpin_auth::PrimaryField::Username;
            config.auth.magic_link.enabled = false;
        })
    };
    let app = app_with(&store, &post, named).await;
    let made = app
        .post(
            "/auth/register",
            json!({ "username": "ada", "password": GOOD }),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let ada = made.signed_in();
    app.with(&ada.token, "POST", "/auth/mfa/email-otp/enable", None)
        .await
        .refused(400, "email_missing");
    // Another factor can still be used.
    enrol(&app, &ada).await;
    assert_eq!(post.count("email_otp"), 0);
    let bob = app
        .post(
            "/auth/register",
            json!({ "username": "bob", "email": "bob@x.test", "password": GOOD }),
        )
        .await
        .signed_in();
    assert_eq!(
        app.with(&bob.token, "POST", "/auth/mfa/email-otp/enable", None)
            .await
            .status,
        200
    );
}

/// A mailed link and a mailed code prove the same mailbox, so a user with another factor must use
/// the other factor.
async fn a_mailed_code_is_no_second_factor_after_a_mailed_link(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.email_verification.enabled = false)
    })
    .await;
    let ada = enrolled(&app, "a@x.test").await;
    enrol_mailed_codes(&app, &post, &ada.who).await;
    app.change(&ada.who.id, json!({ "emailVerified": true }))
        .await;
    let by_link = async |sent: usize| {
        app.post(
            "/auth/magic-link/request",
            json!({ "identifier": "a@x.test" }),
        )
        .await;
        let token = post.token("magic_link", sent).await;
        app.post("/auth/magic-link/verify", json!({ "token": token }))
            .await
    };
    let asked = by_link(1).await;
    assert_eq!(
        (
            &asked.json()["mfaMethods"],
            &asked.json()["recoveryAvailable"]
        ),
        (&json!(["totp"]), &json!(true)),
        "{asked:?}"
    );
    let token = asked.text("mfaToken");
    app.post(
        "/auth/mfa/resend",
        json!({ "mfaToken": token, "method": "emailOtp" }),
    )
    .await
    .refused(400, "method_unavailable");
    app.post("/auth/mfa/resend", json!({ "mfaToken": token }))
        .await
        .refused(400, "method_unavailable");
    let sent = json!({ "mfaToken": token, "method": "emailOtp", "code": "123456" });
    app.post("/auth/mfa/verify", sent)
        .await
        .refused(400, "method_unavailable");
    app.advance(30).await;
    let done = app.verify(&token, &code_at(&app, &ada.secret, 0)).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        post.count("email_otp"),
        1,
        "only the code of the set-up was mailed"
    );
    // A user without another factor gets a code by mail, because they chose this method.
    let me = done.signed_in();
    assert_eq!(
        app.with(&me.token, "DELETE", "/auth/mfa/totp", None)
            .await
            .status,
        200
    );
    let asked = by_link(2).await;
    assert_eq!(asked.json()["mfaMethods"], json!(["emailOtp"]));
    assert_eq!(
        app.verify(&asked.text("mfaToken"), &post.code(2).await)
            .await
            .status,
        200
    );
}

/// Sets up codes by mail and returns the recovery codes.
async fn enrol_mailed_codes(app: &Server, post: &Post, who: &SignedIn) -> Vec<String> {
    let before = post.count("email_otp");
    let setup = app
        .send(who, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    assert_eq!(setup.status, 200, "{setup:?}");
    let body =
        json!({ "setupToken": setup.text("setupToken"), "code": post.code(before + 1).await });
    let done = app
        .send(who, "POST", "/auth/mfa/email-otp/verify-setup", body)
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    texts(&done.json()["recoveryCodes"])
}

async fn mailed_codes_are_a_second_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let me = app.register("a@x.test").await;
    let setup = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let (token, code) = (setup.text("setupToken"), post.code(1).await);
    let body = |code: &str| json!({ "setupToken": token, "code": code });
    app.send(
        &me,
        "POST",
        "/auth/mfa/email-otp/verify-setup",
        body(&wrong(&code)),
    )
    .await
    .refused(401, "invalid_code");
    let done = app
        .send(&me, "POST", "/auth/mfa/email-otp/verify-setup", body(&code))
        .await;
    assert_eq!(
        (done.status, texts(&done.json()["recoveryCodes"]).len()),
        (200, 10)
    );
    app.send(&me, "POST", "/auth/mfa/email-otp/verify-setup", body(&code))
        .await
        .refused(401, "invalid_challenge");

    let asked = app.try_login("a@x.test").await;
    assert_eq!(asked.json()["mfaMethods"], json!(["emailOtp"]));
    let token = asked.text("mfaToken");
    let first = post.code(2).await;
    let resend = async || {
        app.post("/auth/mfa/resend", json!({ "mfaToken": token }))
            .await
    };
    assert_eq!(
        resend().await.json(),
        json!({ "ok": true, "message": "A code has been sent." })
    );
    let second = post.code(3).await;
    if first != second {
        app.verify(&token, &first)
            .await
            .refused(401, "invalid_code");
    }
    // Each resend waits for its mail, because mails of one round are sent in any order.
    for arrived in 4..6 {
        assert_eq!(resend().await.status, 200);
        post.code(arrived).await;
    }
    resend().await.refused(429, "rate_limited");
    let last = post.code(5).await;
    assert_eq!(app.verify(&token, &last).await.status, 200);
    resend().await.refused(401, "invalid_challenge");
    assert_eq!(post.count("email_otp"), 5);

    // A code is valid for one challenge only.
    let (a, code_a) = (app.challenged("a@x.test").await, post.code(6).await);
    let b = app.challenged("a@x.test").await;
    let code_b = post.code(7).await;
    if code_a != code_b {
        app.verify(&b, &code_a).await.refused(401, "invalid_code");
    }
    assert_eq!(app.verify(&a, &code_a).await.status, 200);
    // A challenge and its code expire after five minutes.
    app.advance(300).await;
    app.verify(&b, &code_b)
        .await
        .refused(401, "invalid_challenge");
    app.with(&me.token, "DELETE", "/auth/mfa/email-otp", None)
        .await
        .refused(403, "step_up_required");
    let asked = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    let proof = json!({ "reauthToken": asked.text("reauthToken"), "code": post.code(8).await });
    assert_eq!(
        app.send(&me, "DELETE", "/auth/mfa/email-otp", proof)
            .await
            .status,
        200
    );
    assert_eq!(
        app.try_login("a@x.test").await.json()["mfaRequired"],
        json!(null)
    );
}

async fn mailed_codes_can_be_added_to_an_authenticator_app(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    assert!(
        enrol_mailed_codes(&app, &post, &ada.who).await.is_empty(),
        "an additional factor creates no recovery codes"
    );
    app.advance(30).await;
    let asked = app.try_login("a@x.test").await;
    assert_eq!(asked.json()["mfaMethods"], json!(["totp", "emailOtp"]));
    let token = asked.text("mfaToken");
    assert_eq!(
        app.post(
            "/auth/mfa/resend",
            json!({ "mfaToken": token, "method": "emailOtp" })
        )
        .await
        .status,
        200
    );
    let mailed = post.code(2).await;
    app.post(
        "/auth/mfa/resend",
        json!({ "mfaToken": token, "method": "sms" }),
    )
    .await
    .refused(400, "method_unavailable");
    app.post(
        "/auth/mfa/resend",
        json!({ "mfaToken": token, "method": "totp" }),
    )
    .await
    .refused(400, "method_unavailable");
    // A mailed code is accepted only for the method `emailOtp`.
    let verify = async |method: &str, code: &str| {
        app.post(
            "/auth/mfa/verify",
            json!({ "mfaToken": token, "method": method, "code": code }),
        )
        .await
    };
    verify("totp", &mailed).await.refused(401, "invalid_code");
    verify("sms", &mailed)
        .await
        .refused(400, "method_unavailable");
    assert_eq!(verify("emailOtp", &mailed).await.status, 200);
    assert_eq!(
        post.count("email_otp"),
        2,
        "no code is sent without a request"
    );
    // The recovery codes stay until the last factor is removed.
    assert_eq!(
        app.verify(&app.challenged("a@x.test").await, &ada.recovery[0])
            .await
            .status,
        200
    );
    let step_up = json!({ "method": "totp", "code": code_at(&app, &ada.secret, 0) });
    let me = app
        .send(&ada.who, "POST", "/auth/step-up", step_up)
        .await
        .signed_in();
    assert_eq!(
        app.with(&me.token, "DELETE", "/auth/mfa/totp", None)
            .await
            .status,
        200
    );
    assert_eq!(
        app.get(&me.token, "/auth/mfa/methods").await.json()["recoveryCodesLeft"],
        9
    );
    assert_eq!(
        app.with(&me.token, "DELETE", "/auth/mfa/email-otp", None)
            .await
            .status,
        200
    );
    assert_eq!(
        app.get(&me.token, "/auth/mfa/methods").await.json()["recoveryCodesLeft"],
        0
    );
}

async fn with_phone(app: &Server, phone: &Phone, who: &SignedIn) -> Reply {
    let sent = phone.count();
    let setup = app
        .send(
            who,
            "POST",
            "/auth/mfa/sms/enable",
            json!({ "phone": "+4930123456" }),
        )
        .await;
    assert_eq!(setup.status, 200, "{setup:?}");
    let (to, code) = phone.code(sent + 1).await;
    assert_eq!(to, "+4930123456");
    app.send(
        who,
        "POST",
        "/auth/mfa/sms/verify-setup",
        json!({ "setupToken": setup.text("setupToken"), "code": code }),
    )
    .await
}

async fn text_messages_are_a_second_factor(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with(&store, &post, |auth| phone.on(auth)).await;
    let me = app.register("a@x.test").await;
    app.send(
        &me,
        "POST",
        "/auth/mfa/sms/enable",
        json!({ "phone": "030123456" }),
    )
    .await
    .problem("format", "phone");
    let done = with_phone(&app, &phone, &me).await;
    assert_eq!(
        (done.status, texts(&done.json()["recoveryCodes"]).len()),
        (200, 10),
        "{done:?}"
    );
    let asked = app.try_login("a@x.test").await;
    assert_eq!(asked.json()["mfaMethods"], json!(["sms"]));
    let (_, code) = phone.code(2).await;
    app.verify(&asked.text("mfaToken"), &wrong(&code))
        .await
        .refused(401, "invalid_code");
    let signed_in = app.verify(&asked.text("mfaToken"), &code).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    // The set-up token of another method does not complete the set-up of a phone.
    let mail = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let body = json!({ "setupToken": mail, "code": post.code(1).await });
    app.send(&me, "POST", "/auth/mfa/sms/verify-setup", body)
        .await
        .refused(401, "invalid_challenge");
    let session = signed_in.signed_in();
    assert_eq!(
        app.with(&session.token, "DELETE", "/auth/mfa/sms", None)
            .await
            .status,
        200
    );
    assert_eq!(
        app.try_login("a@x.test").await.json()["mfaRequired"],
        json!(null)
    );
}

async fn text_messages_are_limited(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with(&store, &post, |auth| phone.on(auth)).await;
    let me = app.register("a@x.test").await;
    with_phone(&app, &phone, &me).await;
    // The message of the set-up counts against the limit of its session. Sign-ins have a separate
    // limit of five.
    for sent in 2..=6 {
        app.challenged("a@x.test").await;
        phone.code(sent).await;
    }
    // The fifth message of the hour was the last. The challenge still exists and reports the limit.
    let token = app.challenged("a@x.test").await;
    let full = app
        .post("/auth/mfa/resend", json!({ "mfaToken": token }))
        .await;
    full.refused(429, "rate_limited");
    assert_eq!(
        (full.header("retry-after").as_str(), phone.count()),
        ("3600", 6)
    );
    app.advance(3600).await;
    app.challenged("a@x.test").await;
    phone.code(7).await;
}

/// If text messages are disabled, an existing factor is still required, and a recovery code works.
async fn disabled_text_messages_leave_recovery_codes(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with(&store, &post, |auth| phone.on(auth)).await;
    let me = app.register("a@x.test").await;
    let recovery = texts(&with_phone(&app, &phone, &me).await.json()["recoveryCodes"]);
    app.stop().await;
    if !store.keeps() {
        return;
    }
    // The code of the app still sets the SMS provider. The settings no longer contain its host.
    let off = |auth: linchpin_auth::Auth| {
        phone.on(auth).configure(|config| {
            (config.auth.mfa.sms.enabled, config.auth.mfa.sms.host) = (false, None);
        })
    };
    let app = app_with(&store, &post, off).await;
    let asked = app.try_login("a@x.test").await;
    assert_eq!(
        (asked.status, &asked.json()["mfaMethods"]),
        (200, &json!(["sms"])),
        "{asked:?}"
    );
    let token = asked.text("mfaToken");
    app.post("/auth/mfa/resend", json!({ "mfaToken": token }))
        .await
        .refused(400, "method_unavailable");
    let signed_in = app.verify(&token, &recovery[0]).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    // The same applies to a proof by a signed-in user.
    let methods = app
        .send(
            &signed_in.signed_in(),
            "POST",
            "/auth/reauth/challenge",
            json!({}),
        )
        .await;
    assert_eq!(
        (methods.status, &methods.json()["reauthToken"]),
        (200, &json!(null)),
        "{methods:?}"
    );
    assert_eq!(phone.count(), 1);
}

async fn a_required_factor_must_be_set_up_first(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.mfa.required = true)
    })
    .await;
    let reply = app
        .post(
            "/auth/register",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (reply.status, reply.json()["mfaSetupRequired"].clone()),
        (201, json!(true))
    );
    let me = reply.signed_in();
    app.get(&me.token, "/__test/protected/user")
        .await
        .refused(403, "mfa_setup_required");
    app.send(&me, "PATCH", "/auth/me", json!({}))
        .await
        .refused(403, "mfa_setup_required");
    app.send(
        &me,
        "POST",
        "/auth/set-password",
        json!({ "password": GOOD }),
    )
    .await
    .refused(403, "mfa_setup_required");
    for path in ["/auth/me", "/auth/sessions", "/auth/mfa/methods"] {
        assert_eq!(app.get(&me.token, path).await.status, 200, "{path}");
    }
    let asked = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    assert_eq!(texts(&asked.json()["availableMethods"]), ["password"]);
    let again = app.login("a@x.test").await;
    assert_eq!(
        app.with(&again.token, "POST", "/auth/logout", None)
            .await
            .status,
        200
    );
    let (secret, _) = enrol(&app, &me).await;
    assert_eq!(
        app.get(&me.token, "/__test/protected/user").await.status,
        200,
        "the same token is sufficient"
    );
    let ada = Enrolled {
        who: me.clone(),
        email: "a@x.test".to_owned(),
        secret,
        recovery: Vec::new(),
    };
    let session = app.login_with(&ada).await;
    app.with(&session.token, "DELETE", "/auth/mfa", None)
        .await
        .refused(403, "mfa_required");
    app.with(&session.token, "DELETE", "/auth/mfa/totp", None)
        .await
        .refused(403, "mfa_required");
    enrol_mailed_codes(&app, &post, &session).await;
    assert_eq!(
        app.with(&session.token, "DELETE", "/auth/mfa/totp", None)
            .await
            .status,
        200,
        "another factor remains"
    );
}

async fn a_phone_alone_does_not_satisfy_a_required_factor(store: Store) {
    let (post, phone) = (Post::default(), Phone::default());
    let app = app_with(&store, &post, |auth| {
        phone
            .on(auth)
            .configure(|config| config.auth.mfa.required = true)
    })
    .await;
    let me = app.register("a@x.test").await;
    assert_eq!(with_phone(&app, &phone, &me).await.status, 200);
    app.get(&me.token, "/__test/protected/user")
        .await
        .refused(403, "mfa_setup_required");
    let asked = app.challenged("a@x.test").await;
    let signed_in = app.verify(&asked, &phone.code(2).await.1).await;
    assert_eq!(signed_in.json()["mfaSetupRequired"], json!(true));
    enrol(&app, &me).await;
    assert_eq!(
        app.get(&me.token, "/__test/protected/user").await.status,
        200
    );
    let session = signed_in.signed_in();
    app.with(&session.token, "DELETE", "/auth/mfa/totp", None)
        .await
        .refused(403, "mfa_required");
    assert_eq!(
        app.with(&session.token, "DELETE", "/auth/mfa/sms", None)
            .await
            .status,
        200
    );
}

async fn trusted_devices_skip_the_second_factor(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.mfa.trust_device_seconds = 3600)
    })
    .await;
    let ada = enrolled(&app, "a@x.test").await;
    let verify = async |device: Option<&str>| {
        app.advance(30).await;
        let body = json!({ "mfaToken": app.challenged("a@x.test").await, "code": code_at(&app, &ada.secret, 0), "trustDevice": true });
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(device.map(|token| ("x-device-token", token)));
        let done = app
            .raw("POST", "/auth/mfa/verify", &headers, &body.to_string())
            .await;
        assert_eq!(done.status, 200, "{done:?}");
        done
    };
    let login_on_device = async |device: &str, password: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("x-device-token", device),
        ];
        let body = json!({ "email": "a@x.test", "password": password }).to_string();
        let reply = app.raw("POST", "/auth/login", &headers, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
    };
    let requires_factor = |reply: &Reply| reply.json()["mfaRequired"] == json!(true);
    let first = verify(None).await;
    let device = first.text("deviceToken");
    let trusted = login_on_device(&device, GOOD).await;
    assert!(
        !requires_factor(&trusted) && trusted.text("deviceToken").is_empty(),
        "{trusted:?}"
    );
    // A sign-in on a trusted device counts as one factor.
    app.get(&trusted.signed_in().token, "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.get(&trusted.signed_in().token, "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
    // A second factor is required without a device token, for another user, and on a device that is
    // recognised but not trusted.
    assert!(requires_factor(&app.try_login("a@x.test").await));
    let bob = enrolled(&app, "b@x.test").await;
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", device.as_str()),
    ];
    let body = json!({ "email": "b@x.test", "password": GOOD }).to_string();
    assert!(requires_factor(
        &app.raw("POST", "/auth/login", &headers, &body).await
    ));
    let recognised = app
        .verify(&app.challenged("b@x.test").await, &bob.recovery[0])
        .await
        .text("deviceToken");
    let headers = [
        ("content-type", "application/json"),
        ("x-device-token", recognised.as_str()),
    ];
    assert!(requires_factor(
        &app.raw("POST", "/auth/login", &headers, &body).await
    ));
    // The trust expires.
    app.advance(3600).await;
    assert!(requires_factor(&login_on_device(&device, GOOD).await));
    // Trust also ends: with a new password, with a changed factor, with a sign-out everywhere, and
    // with a suspension.
    let password = "amber-walrus-17-dune";
    let me = verify(Some(&device)).await.signed_in();
    assert!(!requires_factor(&login_on_device(&device, GOOD).await));
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
    assert!(requires_factor(&login_on_device(&device, password).await));
    assert_eq!(
        app.send(
            &me,
            "POST",
            "/auth/set-password",
            json!({ "password": GOOD, "currentPassword": password })
        )
        .await
        .status,
        200
    );
    assert!(
        requires_factor(&login_on_device(&device, GOOD).await),
        "the former password does not restore the trust"
    );
    let me = verify(Some(&device)).await.signed_in();
    enrol_mailed_codes(&app, &post, &me).await;
    assert!(requires_factor(&login_on_device(&device, GOOD).await));
    let me = verify(Some(&device)).await.signed_in();
    assert_eq!(
        app.with(&me.token, "POST", "/auth/sessions/revoke-others", None)
            .await
            .status,
        200
    );
    assert!(requires_factor(&login_on_device(&device, GOOD).await));
    verify(Some(&device)).await;
    assert!(!requires_factor(&login_on_device(&device, GOOD).await));
    app.change(&me.id, json!({ "suspended": true })).await;
    app.change(&me.id, json!({ "suspended": false })).await;
    assert!(requires_factor(&login_on_device(&device, GOOD).await));
}
