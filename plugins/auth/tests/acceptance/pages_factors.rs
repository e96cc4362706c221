//! The pages of second factors: set-up, sign-in, and confirmation of the user's identity.

use linchpin_auth::Auth;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::cases;
use crate::factor::{app_with, code_at, wrong};
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};
use crate::visitor::{Visitor, hidden, text};

cases! {
    one_store:
        an_authenticator_app_is_set_up_by_forms, mailed_codes_are_enabled_by_forms,
        an_authenticator_app_and_mailed_codes_are_tried_separately,
        passkeys_are_a_second_factor_by_forms,
        changes_of_factors_need_a_recent_proof, an_account_scheduled_for_deletion_adds_no_factor,
        disabled_factors_have_no_form;
}

async fn app(store: &Store, post: &Post) -> Server {
    app_with(store, post, with_passkeys).await
}

/// Sets up an authenticator app by the pages. Returns its secret and the recovery codes.
async fn set_up(app: &Server, ada: &mut Visitor<'_>) -> (String, Vec<String>) {
    let page = ada.fill("/security", "/factors/app", &[]).await;
    assert_eq!(page.status, 200, "{}", text(&page));
    let (secret, uri) = (
        hidden(&page, "secret").unwrap(),
        hidden(&page, "uri").unwrap(),
    );
    assert!(
        text(&page).contains("href=\"otpauth://totp/"),
        "{}",
        text(&page)
    );
    let code = code_at(app, &secret, 0);
    let wrong_code = wrong(&code);
    let refused = ada
        .fill(
            "/security",
            "/factors/app/verify",
            &[("secret", &secret), ("uri", &uri), ("code", &wrong_code)],
        )
        .await;
    assert!(
        refused.status == 401 && text(&refused).contains("The code is wrong."),
        "{}",
        text(&refused)
    );
    assert_eq!(hidden(&refused, "secret").as_ref(), Some(&secret));
    let done = ada
        .fill("/security", "/factors/app/verify", &[("code", &code)])
        .await;
    let body = text(&done);
    assert!(
        done.status == 200 && body.contains("Recovery codes"),
        "{body}"
    );
    let codes: Vec<String> = body
        .split("<li>")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap().to_owned())
        .collect();
    assert_eq!(codes.len(), 10, "{body}");
    (secret, codes)
}

async fn an_authenticator_app_is_set_up_by_forms(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (secret, codes) = set_up(&app, &mut ada).await;
    assert!(
        text(&ada.get("/security").await)
            .contains("Authenticator app <span class=\"badge\">On</span>")
    );
    // A sign-in with the password, then a code.
    let mut other = Visitor::new(&app);
    let first = other
        .fill(
            "/sign-in",
            "/sign-in",
            &[
                ("identifier", "ada@example.test"),
                ("password", GOOD),
                ("returnTo", "/app"),
            ],
        )
        .await;
    assert_eq!(
        (first.status, first.header("location").as_str()),
        (303, "/auth/ui/second?returnTo=%2Fapp"),
        "{first:?}"
    );
    assert!(!other.cookies.contains_key("__Host-token"));
    assert_eq!(other.get("/security").await.status, 303);
    app.advance(30).await;
    let code = code_at(&app, &secret, 0);
    let refused = other
        .fill("/second", "/second", &[("code", &wrong(&code))])
        .await;
    assert!(
        refused.status == 401 && text(&refused).contains("The code is wrong."),
        "{}",
        text(&refused)
    );
    let done = other
        .fill(
            "/second",
            "/second",
            &[("code", &code), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/app"),
        "{}",
        text(&done)
    );
    assert_eq!(other.get("/security").await.status, 200);
    assert!(
        !other.cookies.contains_key("__Secure-challenge"),
        "{:?}",
        other.cookies
    );
    // A sign-in with a recovery code. Without a pending sign-in, the page redirects to the sign-in
    // page.
    let mut third = Visitor::new(&app);
    assert_eq!(
        third.get("/second").await.header("location"),
        "/auth/ui/sign-in"
    );
    third.sign_in("ada@example.test", GOOD).await;
    let done = third
        .fill("/second", "/second", &[("code", &codes[0].to_lowercase())])
        .await;
    assert_eq!(done.status, 303, "{}", text(&done));
    assert!(text(&third.get("/security").await).contains("9 left."));
    // If the challenge has expired, the sign-in must start again.
    let mut late = Visitor::new(&app);
    late.sign_in("ada@example.test", GOOD).await;
    let csrf = late.csrf("/second").await;
    app.advance(301).await;
    let expired = late
        .post("/second", &[("csrf", &csrf), ("code", &code)])
        .await;
    assert!(
        expired.status == 401 && text(&expired).contains("Please start again"),
        "{}",
        text(&expired)
    );
}

async fn mailed_codes_are_enabled_by_forms(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let page = ada.fill("/security", "/factors/email", &[]).await;
    let setup = hidden(&page, "setupToken").unwrap_or_else(|| panic!("{}", text(&page)));
    let code = post.code(1).await;
    let fields = |code: &str| {
        vec![
            ("setupToken", setup.clone()),
            ("method", "emailOtp".to_owned()),
            ("code", code.to_owned()),
        ]
    };
    let bad = fields(&wrong(&code));
    let bad: Vec<(&str, &str)> = bad
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let refused = ada.fill("/security", "/factors/sent/verify", &bad).await;
    assert_eq!(
        (refused.status, hidden(&refused, "setupToken")),
        (401, Some(setup.clone()))
    );
    let good = fields(&code);
    let good: Vec<(&str, &str)> = good
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert!(
        text(&ada.fill("/security", "/factors/sent/verify", &good).await)
            .contains("Recovery codes")
    );
    // Codes by mail are the only method, so a code is sent at once.
    let mut other = Visitor::new(&app);
    other.sign_in("ada@example.test", GOOD).await;
    let first = post.code(2).await;
    let sent = other
        .fill("/second", "/second/send", &[("method", "emailOtp")])
        .await;
    assert_eq!(sent.header("location"), "/auth/ui/second?done=code");
    let second = post.code(3).await;
    assert_eq!(
        other
            .fill("/second", "/second", &[("code", &first)])
            .await
            .status,
        401
    );
    assert_eq!(
        other
            .fill("/second", "/second", &[("code", &second)])
            .await
            .status,
        303
    );
    // A step-up with a mailed code.
    app.advance(301).await;
    let asked = other
        .fill(
            "/confirm?returnTo=/app",
            "/confirm/send",
            &[("method", "emailOtp"), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/confirm?returnTo=%2Fapp&done=code",
        "{}",
        text(&asked)
    );
    let code = post.code(4).await;
    let done = other
        .fill(
            "/confirm?returnTo=/app",
            "/confirm",
            &[("code", &code), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/app"),
        "{}",
        text(&done)
    );
    assert_eq!(
        other
            .fill("/security", "/factors/remove", &[("method", "emailOtp")])
            .await
            .header("location"),
        "/auth/ui/security?done=removed"
    );
}

/// The form says whether a numeric code is from the app or from the message. A wrong code of one
/// source does not affect the other.
async fn an_authenticator_app_and_mailed_codes_are_tried_separately(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (secret, _) = set_up(&app, &mut ada).await;
    let page = ada.fill("/security", "/factors/email", &[]).await;
    let setup = hidden(&page, "setupToken").unwrap_or_else(|| panic!("{}", text(&page)));
    let code = post.code(1).await;
    let enrolled = ada
        .fill(
            "/security",
            "/factors/sent/verify",
            &[
                ("setupToken", &setup),
                ("method", "emailOtp"),
                ("code", &code),
            ],
        )
        .await;
    assert_eq!(enrolled.status, 303, "{}", text(&enrolled));
    // The form asks for the source only after a code was sent.
    let mut other = Visitor::new(&app);
    other.sign_in("ada@example.test", GOOD).await;
    assert_eq!(
        hidden(&other.get("/second").await, "from").as_deref(),
        Some("totp")
    );
    other
        .fill("/second", "/second/send", &[("method", "emailOtp")])
        .await;
    let mailed = post.code(2).await;
    let page = other.get("/second").await;
    assert!(
        hidden(&page, "from").is_none() && text(&page).contains("Source of the code"),
        "{}",
        text(&page)
    );
    app.advance(30).await;
    let refused = other
        .fill("/second", "/second", &[("code", &mailed), ("from", "totp")])
        .await;
    assert!(
        refused.status == 401 && text(&refused).contains("The code is wrong."),
        "{}",
        text(&refused)
    );
    let done = other
        .fill(
            "/second",
            "/second",
            &[("code", &code_at(&app, &secret, 0)), ("from", "totp")],
        )
        .await;
    assert_eq!(done.status, 303, "{}", text(&done));
    let mut third = Visitor::new(&app);
    third.sign_in("ada@example.test", GOOD).await;
    third
        .fill("/second", "/second/send", &[("method", "emailOtp")])
        .await;
    let done = third
        .fill(
            "/second",
            "/second",
            &[("code", &post.code(3).await), ("from", "message")],
        )
        .await;
    assert_eq!(done.status, 303, "{}", text(&done));
    // The same applies to the step-up. It does not depend on the state of the sign-in.
    app.advance(301).await;
    assert_eq!(
        hidden(&third.get("/confirm").await, "from").as_deref(),
        Some("totp")
    );
    third
        .fill("/confirm", "/confirm/send", &[("method", "emailOtp")])
        .await;
    post.code(4).await;
    assert!(text(&third.get("/confirm").await).contains("Source of the code"));
    let done = third
        .fill(
            "/confirm",
            "/confirm",
            &[("code", &code_at(&app, &secret, 0)), ("from", "totp")],
        )
        .await;
    assert_eq!(done.status, 303, "{}", text(&done));
}

async fn passkeys_are_a_second_factor_by_forms(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let token = ada.cookies["__Host-token"].clone();
    let (options, registration) = app.register_options(&token).await;
    let mut authenticator = Authenticator::p256();
    let answer = authenticator.register(&options).to_string();
    let made = ada
        .fill(
            "/security",
            "/passkeys/add",
            &[("token", &registration), ("response", &answer)],
        )
        .await;
    assert!(
        made.status == 200 && text(&made).contains("Recovery codes"),
        "{}",
        text(&made)
    );
    let mut other = Visitor::new(&app);
    other.sign_in("ada@example.test", GOOD).await;
    let page = other.get("/second").await;
    let challenge = hidden(&page, "challenge").unwrap();
    assert!(text(&page).contains("data-passkey=\"second\""));
    let again = app
        .post(
            "/auth/mfa/resend",
            json!({ "mfaToken": challenge, "method": "webauthn" }),
        )
        .await;
    let answer = authenticator
        .assert(&again.json()["webauthnOptions"])
        .to_string();
    for malformed in ["", "x"] {
        assert_eq!(
            other
                .fill("/second", "/second/passkey", &[("response", malformed)])
                .await
                .status,
            401
        );
    }
    let done = other
        .fill("/second", "/second/passkey", &[("response", &answer)])
        .await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/auth/ui/security"),
        "{}",
        text(&done)
    );
    // A step-up with the passkey.
    let token = other.cookies["__Host-token"].clone();
    let asked = app
        .with(
            &token,
            "POST",
            "/auth/reauth/challenge",
            Some(json!({ "method": "webauthn" })),
        )
        .await
        .json();
    let answer = authenticator.assert(&asked["webauthnOptions"]).to_string();
    let reauth = asked["reauthToken"].as_str().unwrap();
    let done = other
        .fill(
            "/confirm",
            "/confirm/passkey",
            &[("token", reauth), ("response", &answer)],
        )
        .await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/auth/ui/security"),
        "{}",
        text(&done)
    );
    let id = hidden(&other.get("/security").await, "id").unwrap();
    let removed = other
        .fill("/security", "/passkeys/remove", &[("id", &id)])
        .await;
    assert_eq!(
        removed.header("location"),
        "/auth/ui/security?done=passkey-removed",
        "{}",
        text(&removed)
    );
}

/// The page for a step-up, with its return address.
const CONFIRM: &str = "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fsecurity";

async fn changes_of_factors_need_a_recent_proof(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let (secret, _) = set_up(&app, &mut ada).await;
    app.advance(901).await;
    for (path, fields) in [
        ("/factors/app", vec![]),
        ("/factors/email", vec![]),
        ("/factors/recovery", vec![]),
        ("/factors/remove", vec![("method", "totp")]),
    ] {
        let reply = ada.fill("/security", path, &fields).await;
        assert_eq!(
            (reply.status, reply.header("location").as_str()),
            (303, CONFIRM),
            "{path}: {}",
            text(&reply)
        );
    }
    let page = text(&ada.get("/confirm?returnTo=/auth/ui/security").await);
    assert!(
        page.contains("A code from your authenticator app") && !page.contains("name=\"password\""),
        "{page}"
    );
    let code = code_at(&app, &secret, 0);
    assert_eq!(
        ada.fill("/confirm", "/confirm", &[("code", &wrong(&code))])
            .await
            .status,
        401
    );
    let before = ada.cookies["__Host-token"].clone();
    let done = ada.fill("/confirm", "/confirm", &[("code", &code)]).await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/auth/ui/security"),
        "{}",
        text(&done)
    );
    assert_ne!(ada.cookies["__Host-token"], before);
    assert!(
        text(&ada.fill("/security", "/factors/recovery", &[]).await).contains("Recovery codes")
    );
    assert_eq!(
        ada.fill("/security", "/factors/remove", &[("method", "totp")])
            .await
            .status,
        303
    );
    // A user who has only a password confirms with the password.
    let mut bob = Visitor::new(&app);
    bob.sign_up("bob@example.test").await;
    assert!(text(&bob.get("/confirm").await).contains("name=\"password\""));
    assert_eq!(
        bob.fill("/confirm", "/confirm", &[("password", "wrong")])
            .await
            .status,
        401
    );
    assert_eq!(
        bob.fill("/confirm", "/confirm", &[("password", GOOD)])
            .await
            .status,
        303
    );
    // If a second factor is required, the page says so, and nothing else works.
    app.stop().await;
    let required =
        |auth: Auth| with_passkeys(auth).configure(|config| config.auth.mfa.required = true);
    let app = app_with(&store, &post, required).await;
    let mut eve = Visitor::new(&app);
    eve.sign_up("eve@example.test").await;
    let refused = eve
        .fill(
            "/security",
            "/security/password",
            &[
                ("currentPassword", GOOD),
                ("password", "another-lamp-for-otters"),
            ],
        )
        .await;
    assert_eq!(refused.status, 403);
    set_up(&app, &mut eve).await;
    assert_eq!(
        eve.fill("/security", "/sessions/end-others", &[])
            .await
            .status,
        303
    );
}

/// An account that is scheduled for deletion gets no further sign-in method, even by a set-up that
/// was started before.
async fn an_account_scheduled_for_deletion_adds_no_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let token = ada.cookies["__Host-token"].clone();
    let page = ada.fill("/security", "/factors/app", &[]).await;
    let (secret, uri) = (
        hidden(&page, "secret").unwrap(),
        hidden(&page, "uri").unwrap(),
    );
    let setup = hidden(
        &ada.fill("/security", "/factors/email", &[]).await,
        "setupToken",
    )
    .unwrap();
    let mailed = post.code(1).await;
    let (options, registration) = app.register_options(&token).await;
    let answer = Authenticator::p256().register(&options).to_string();
    let scheduled = app
        .with(
            &token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD })),
        )
        .await;
    assert_eq!(scheduled.status, 202, "{scheduled:?}");
    let code = code_at(&app, &secret, 0);
    for (path, fields) in [
        ("/factors/app", vec![]),
        (
            "/factors/app/verify",
            vec![("secret", secret.as_str()), ("uri", &uri), ("code", &code)],
        ),
        (
            "/factors/sent/verify",
            vec![
                ("setupToken", setup.as_str()),
                ("method", "emailOtp"),
                ("code", &mailed),
            ],
        ),
        (
            "/passkeys/add",
            vec![("token", registration.as_str()), ("response", &answer)],
        ),
        ("/confirm", vec![("password", GOOD)]),
        ("/confirm/send", vec![("method", "emailOtp")]),
    ] {
        let refused = ada.fill("/security", path, &fields).await;
        assert_eq!(refused.status, 403, "{path}: {}", text(&refused));
    }
    for page in ["/sessions", "/confirm"] {
        assert_eq!(ada.get(page).await.status, 403, "{page}");
    }
    // The refused forms had no effect.
    assert_eq!(ada.fill("/security", "/keep", &[]).await.status, 303);
    let me = app.me(&token).await.json();
    assert_eq!(
        (&me["mfaMethods"], &me["deletionScheduledFor"]),
        (&json!([]), &json!(null))
    );
    assert_eq!(
        app.get(&token, "/auth/mfa/webauthn/credentials")
            .await
            .json()["credentials"],
        json!([])
    );
}

async fn disabled_factors_have_no_form(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| {
            config.auth.mfa.totp.enabled = false;
            config.auth.mfa.email_otp.enabled = false;
            config.auth.mfa.sms.enabled = false;
        })
    })
    .await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    for path in [
        "/factors/app",
        "/factors/app/verify",
        "/factors/email",
        "/factors/phone",
        "/factors/sent/verify",
    ] {
        let refused = ada
            .fill(
                "/security",
                path,
                &[("phone", "+41791234567"), ("code", "123456")],
            )
            .await;
        assert_eq!(refused.status, 404, "{path}: {}", text(&refused));
    }
    assert_eq!(post.count("email_otp"), 0);
    let methods = app
        .get(&ada.cookies["__Host-token"], "/auth/mfa/methods")
        .await
        .json();
    assert_eq!(methods["methods"], json!([]));
}
