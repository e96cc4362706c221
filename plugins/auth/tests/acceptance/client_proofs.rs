//! Changes that need a recent sign-in or second factor, by clients that send no proof with the
//! change, or only a password.

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use crate::authenticator::Authenticator;
use crate::cases;
use crate::factor::{app, app_with, code_at, enrol, enrolled};
use crate::issuer::Peer;
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Store};

cases! {
    every_store:
        a_recent_sign_in_allows_removing_a_passkey,
        removing_a_passkey_of_an_account_with_factors_needs_proof,
        a_password_alone_is_no_proof_for_an_account_with_a_factor,
        a_recent_sign_in_proves_only_removals;
    one_store: query_parameters_of_the_client_are_not_sent_to_providers;
}

async fn a_recent_sign_in_allows_removing_a_passkey(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let path = |id: &str| format!("/auth/mfa/webauthn/credentials/{id}");
    let ids = [
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await,
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await,
        app.register_passkey(&ada.token, &mut Authenticator::p256())
            .await,
    ];
    // The request has no body, or a body without a proof.
    app.advance(300).await;
    let removed = app.with(&ada.token, "DELETE", &path(&ids[0]), None).await;
    assert_eq!(
        (removed.status, removed.json()),
        (
            200,
            json!({ "ok": true, "message": "The passkey was removed." })
        )
    );
    app.advance(1).await;
    app.with(&ada.token, "DELETE", &path(&ids[1]), None)
        .await
        .refused(403, "step_up_required");
    let again = app.login("ada@example.test").await;
    assert_eq!(
        app.send(&again, "DELETE", &path(&ids[1]), json!({}))
            .await
            .status,
        200
    );
    // A password in the body is checked even if none is required.
    app.send(
        &again,
        "DELETE",
        "/auth/mfa/webauthn",
        json!({ "password": "wrong" }),
    )
    .await
    .refused(401, "invalid_credentials");
    let removed = app
        .send(&again, "DELETE", "/auth/mfa/webauthn", json!({}))
        .await;
    assert_eq!(
        (removed.status, removed.json()),
        (
            200,
            json!({ "ok": true, "message": "All passkeys were removed." })
        )
    );
}

async fn removing_a_passkey_of_an_account_with_factors_needs_proof(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let id = app
        .register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    let path = format!("/auth/mfa/webauthn/credentials/{id}");
    for path in [&path, "/auth/mfa/webauthn"] {
        app.with(&ada.token, "DELETE", path, None)
            .await
            .refused(403, "step_up_required");
        app.send(&ada, "DELETE", path, json!({ "password": GOOD }))
            .await
            .refused(403, "factor_not_allowed");
    }
    app.prove(&ada).await;
    app.send(&ada, "DELETE", &path, json!({ "password": "wrong" }))
        .await
        .refused(401, "invalid_credentials");
    assert_eq!(
        app.send(&ada, "DELETE", &path, json!({ "password": GOOD }))
            .await
            .status,
        200
    );
}

async fn a_password_alone_is_no_proof_for_an_account_with_a_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "ada@example.test").await;
    let me = app.login_with(&ada).await;
    let delete = async |body: Json| app.send(&me, "DELETE", "/auth/me", body).await;
    delete(json!({ "password": "wrong" }))
        .await
        .refused(401, "invalid_credentials");
    // The password alone is not accepted: not as a step-up, not in a session without a second
    // factor, and not after the sign-in is no longer recent.
    let again = json!({ "method": "password", "password": GOOD });
    app.send(&me, "POST", "/auth/step-up", again)
        .await
        .refused(403, "factor_not_allowed");
    let body = json!({ "email": "new@example.test", "password": GOOD });
    assert_eq!(
        app.send(&me, "POST", "/auth/change-email", body.clone())
            .await
            .status,
        404,
        "the route is not mounted"
    );
    app.send(&ada.who, "DELETE", "/auth/me", json!({ "password": GOOD }))
        .await
        .refused(403, "factor_not_allowed");
    app.advance(301).await;
    delete(json!({ "password": GOOD }))
        .await
        .refused(403, "factor_not_allowed");
    // After a step-up, the password is sufficient. A wrong proof is still counted.
    let proof = json!({ "method": "totp", "code": code_at(&app, &ada.secret, 0) });
    let me = app
        .send(&me, "POST", "/auth/step-up", proof)
        .await
        .signed_in();
    for _ in 1..10 {
        app.send(&me, "DELETE", "/auth/mfa", json!({ "password": "wrong" }))
            .await
            .refused(401, "invalid_credentials");
    }
    app.send(&me, "DELETE", "/auth/mfa", json!({ "password": GOOD }))
        .await
        .refused(429, "rate_limited");
    app.advance(900).await;
    let me = app.login_with(&ada).await;
    assert_eq!(
        app.send(&me, "DELETE", "/auth/me", json!({ "password": GOOD }))
            .await
            .status,
        202
    );
}

/// A recent sign-in is sufficient only to remove one of several sign-in methods.
async fn a_recent_sign_in_proves_only_removals(store: Store) {
    let post = Post::default();
    let with = |auth: Auth| auth.configure(|config| config.auth.email_verification.enabled = true);
    let app = app_with(&store, &post, with).await;
    let ada = app.register("ada@example.test").await;
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    app.send(&ada, "DELETE", "/auth/me", json!({}))
        .await
        .refused(403, "step_up_required");
    app.send(
        &ada,
        "POST",
        "/auth/change-email",
        json!({ "email": "new@example.test" }),
    )
    .await
    .refused(403, "step_up_required");
    enrol(&app, &ada).await;
    for (method, path) in [
        ("DELETE", "/auth/mfa"),
        ("DELETE", "/auth/mfa/totp"),
        ("POST", "/auth/mfa/recovery-codes"),
    ] {
        app.send(&ada, method, path, json!({}))
            .await
            .refused(403, "step_up_required");
    }
}

async fn query_parameters_of_the_client_are_not_sent_to_providers(store: Store) {
    let app = store.app_with(|auth| Peer::shared().on(auth)).await;
    let added = "client_id=other&scope=admin&redirect_uri=https%3A%2F%2Fevil.test";
    let reply = app
        .raw(
            "GET",
            &format!("/auth/peer?{added}&return_to=%2Fapp"),
            &[],
            "",
        )
        .await;
    assert_eq!(reply.status, 302, "{reply:?}");
    let to = reply.header("location");
    assert!(
        to.contains("client_id=app&") && !to.contains("admin") && !to.contains("evil"),
        "{to}"
    );
    let ada = app.register("ada@example.test").await;
    let reply = app
        .with(
            &ada.token,
            "POST",
            &format!("/auth/peer/link?{added}"),
            None,
        )
        .await;
    assert!(
        reply.status == 303 && !reply.header("location").contains("evil"),
        "{reply:?}"
    );
    // Other parameters are reported as mistakes.
    app.raw("GET", "/auth/peer?returnto=%2Fapp", &[], "")
        .await
        .refused(400, "unknown_parameter");
}
