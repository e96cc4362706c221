//! Second factors in combination with cookies, hooks, transports and a scheduled deletion.

use std::sync::{Arc, Mutex};

use linchpin::BoxFuture;
use linchpin_auth::{AuthHooks, HookCx, HookResult, SignIn, Transport};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::factor::{app, app_with, code_at, enrolled};
use crate::post::Post;
use crate::server::{GOOD, Store, claims};

cases! {
    every_store:
        hooks_run_once_per_sign_in, a_step_up_by_mail_removes_factors,
        no_secret_is_stored_in_plain_text;
    one_store:
        a_browser_steps_up_with_its_token, a_page_of_another_origin_cannot_complete_a_sign_in,
        in_cookie_transport_bodies_contain_no_tokens;
}

async fn a_page_of_another_origin_cannot_complete_a_sign_in(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let token = app.challenged("a@x.test").await;
    let body = json!({ "mfaToken": token, "code": code_at(&app, &ada.secret, 0) }).to_string();
    let cookies = format!("__Host-token={}", ada.who.token);
    for foreign in [
        ("origin", "https://evil.test"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let headers = [
            ("content-type", "application/json"),
            ("cookie", cookies.as_str()),
            foreign,
        ];
        app.raw("POST", "/auth/mfa/verify", &headers, &body)
            .await
            .refused(403, "csrf_failed");
        app.raw("POST", "/auth/mfa/resend", &headers, &resend_body(&token))
            .await
            .refused(403, "csrf_failed");
    }
    app.raw(
        "POST",
        "/auth/mfa/verify",
        &[("content-type", "text/plain")],
        &body,
    )
    .await
    .refused(415, "unsupported_media_type");
    // A stale cookie does not prevent a sign-in. The refused requests above did not count as
    // attempts.
    let headers = [
        ("content-type", "application/json"),
        ("cookie", "__Host-token=stale"),
    ];
    assert_eq!(
        app.raw("POST", "/auth/mfa/verify", &headers, &body)
            .await
            .status,
        200
    );
}

fn resend_body(token: &str) -> String {
    json!({ "mfaToken": token }).to_string()
}

async fn a_browser_steps_up_with_its_token(store: Store) {
    let app = store.app().await;
    app.register("a@x.test").await;
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    let cookies = format!(
        "__Host-token={}; csrf_token={}",
        login.text("token"),
        login.cookie_value("csrf_token")
    );
    let (csrf, origin) = (
        login.cookie_value("csrf_token"),
        format!("http://{}", app.host()),
    );
    let body = json!({ "method": "password", "password": GOOD }).to_string();
    let bare = [
        ("content-type", "application/json"),
        ("cookie", cookies.as_str()),
    ];
    app.raw("POST", "/auth/step-up", &bare, &body)
        .await
        .refused(403, "csrf_failed");
    let with_csrf = [
        bare[0],
        bare[1],
        ("origin", origin.as_str()),
        ("x-csrf-token", csrf.as_str()),
    ];
    let done = app.raw("POST", "/auth/step-up", &with_csrf, &body).await;
    assert_eq!(done.status, 200, "{done:?}");
    // The earlier CSRF token was bound to the former `sid`.
    assert_ne!(done.cookie_value("csrf_token"), csrf);
    let stale = format!(
        "__Host-token={}; csrf_token={csrf}",
        done.cookie_value("__Host-token")
    );
    let with_csrf = [
        bare[0],
        ("cookie", stale.as_str()),
        ("origin", origin.as_str()),
        ("x-csrf-token", csrf.as_str()),
    ];
    app.raw("POST", "/auth/step-up", &with_csrf, &body)
        .await
        .refused(403, "csrf_failed");
}

/// Records the calls of hooks.
#[derive(Clone, Default)]
struct RecordingHooks(Arc<Mutex<Vec<(&'static str, String)>>>);

impl AuthHooks for RecordingHooks {
    fn pre_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        self.0
            .lock()
            .unwrap()
            .push(("pre", input.method.to_owned()));
        Box::pin(async { Ok(()) })
    }

    fn post_login<'a>(
        &'a self,
        _: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        self.0
            .lock()
            .unwrap()
            .push(("post", format!("{} {}", input.method, input.amr.join("+"))));
        Box::pin(async { Ok(json!({ "customClaims": { "plan": "pro", "sid": "mine" } })) })
    }
}

async fn hooks_run_once_per_sign_in(store: Store) {
    let (post, calls) = (Post::default(), RecordingHooks::default());
    let hooks = calls.clone();
    let app = app_with(&store, &post, |auth| auth.hooks(hooks)).await;
    let ada = enrolled(&app, "a@x.test").await;
    calls.0.lock().unwrap().clear();
    let token = app.challenged("a@x.test").await;
    assert_eq!(
        *calls.0.lock().unwrap(),
        [("pre", "password".to_owned())],
        "`post_login` runs only when a session is opened"
    );
    let done = app.verify(&token, &ada.recovery[0]).await;
    assert_eq!(
        *calls.0.lock().unwrap(),
        [
            ("pre", "password".to_owned()),
            ("post", "password pwd+otp+mfa".to_owned())
        ]
    );
    assert_eq!(claims(&done.text("token"))["plan"], "pro");
    // A step-up calls no hook and keeps the claims.
    app.advance(30).await;
    let body = json!({ "method": "totp", "code": code_at(&app, &ada.secret, 0) });
    let stepped_up = app
        .send(&done.signed_in(), "POST", "/auth/step-up", body)
        .await;
    assert_eq!(claims(&stepped_up.text("token"))["plan"], "pro");
    assert_eq!(calls.0.lock().unwrap().len(), 2);
}

async fn in_cookie_transport_bodies_contain_no_tokens(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.refresh_tokens().transport(Transport::Cookie)
    })
    .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(made.text("token"), "");
    let token = made.cookie_value("__Host-token");
    let setup = app.with(&token, "POST", "/auth/mfa/setup", None).await;
    let secret = setup.text("secret");
    let done = app
        .with(
            &token,
            "POST",
            "/auth/mfa/verify-setup",
            Some(json!({ "code": code_at(&app, &secret, 0) })),
        )
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    app.advance(30).await;
    let verified = app
        .verify(
            &app.challenged("a@x.test").await,
            &code_at(&app, &secret, 0),
        )
        .await;
    let body = verified.json();
    assert_eq!(
        (
            body["token"].clone(),
            body["refreshToken"].clone(),
            body["deviceToken"].clone()
        ),
        (json!(""), json!(null), json!(null))
    );
    let token = verified.cookie_value("__Host-token");
    assert_eq!(app.me(&token).await.status, 200);
    app.advance(30).await;
    let body = json!({ "method": "totp", "code": code_at(&app, &secret, 0) });
    let stepped_up = app.with(&token, "POST", "/auth/step-up", Some(body)).await;
    assert_eq!(
        (
            stepped_up.status,
            stepped_up.text("token"),
            stepped_up.text("refreshToken")
        ),
        (200, String::new(), String::new())
    );
    assert_eq!(
        app.me(&stepped_up.cookie_value("__Host-token"))
            .await
            .status,
        200
    );
}

// A code by mail is a valid step-up, except for a change of the address to which it was sent.
async fn a_step_up_by_mail_removes_factors(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        auth.configure(|config| config.auth.email_verification.enabled = true)
    })
    .await;
    let me = app.register("a@x.test").await;
    app.change(&me.id, json!({ "emailVerified": true })).await;
    let setup = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": post.code(1).await });
    assert_eq!(
        app.send(&me, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );
    let session = app
        .verify(&app.challenged("a@x.test").await, &post.code(2).await)
        .await
        .signed_in();
    let other = json!({ "email": "b@x.test" });
    app.send(&session, "POST", "/auth/change-email", other.clone())
        .await
        .refused(403, "step_up_required");
    let asked = app
        .send(&session, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    let code = post.code(3).await;
    let proof =
        json!({ "email": "b@x.test", "reauthToken": asked.text("reauthToken"), "code": code });
    app.send(&session, "POST", "/auth/change-email", proof)
        .await
        .refused(403, "factor_not_allowed");
    // A refusal consumes no code.
    let body =
        json!({ "method": "emailOtp", "reauthToken": asked.text("reauthToken"), "code": code });
    let session = app
        .send(&session, "POST", "/auth/step-up", body)
        .await
        .signed_in();
    app.send(&session, "POST", "/auth/change-email", other)
        .await
        .refused(403, "step_up_required");
    assert_eq!(
        app.with(&session.token, "DELETE", "/auth/mfa/email-otp", None)
            .await
            .status,
        200
    );
}

async fn no_secret_is_stored_in_plain_text(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let pending = app
        .with(&ada.who.token, "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let token = app.challenged("a@x.test").await;
    app.send(&ada.who, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let code = post.code(1).await;
    // Only a store in a file can be read here.
    let Some(file) = store.file() else { return };
    app.stop().await;
    let bytes: Vec<u8> = ["", "-wal"]
        .iter()
        .filter_map(|end| std::fs::read(format!("{}{end}", file.display())).ok())
        .flatten()
        .collect();
    let file_contains = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(file_contains("a@x.test"), "the file contains the address");
    let plain = ada.recovery[0].replace('-', "");
    for secret in [
        ada.secret.as_str(),
        &pending,
        &token,
        &ada.recovery[0],
        &plain,
        &format!("\"{code}\""),
    ] {
        assert!(!file_contains(secret), "{secret}");
    }
}
