//! Passkeys with the client.

use serde_json::json;

use super::{EMAIL, Mode, Page, app, both_modes};
use crate::authenticator::{Authenticator, SITE};
use crate::factor::texts;
use crate::post::Post;
use crate::server::{GOOD, Server};

both_modes!(
    the_passkey_hooks_work,
    a_passkey_that_is_no_factor_needs_a_recent_sign_in
);

pub(super) const HOOKS: &[&str] = &[
    "useLogin",
    "useLogout",
    "useMfaVerify",
    "usePasskeyLogin",
    "usePasskeyLoginOptions",
    "useRegister",
    "useVerifyEmail",
    "useWebAuthnCredentials",
    "useWebAuthnDisable",
    "useWebAuthnRegister",
    "useWebAuthnRegisterOptions",
    "useWebAuthnRemoveCredential",
];
const ADDED: &str = "The passkey was added.";
const REMOVED: &str = "The passkey was removed.";

/// Adds a passkey and returns the result.
async fn add(
    page: &mut Page,
    app: &Server,
    authenticator: &mut Authenticator,
    name: &str,
) -> serde_json::Value {
    // The newer of two requests counts, so the test clock is advanced by a millisecond.
    app.post("/__test/clock", json!({ "advanceSeconds": 0.001 }))
        .await;
    let started = page.call("useWebAuthnRegisterOptions", json!(null)).0;
    // Extra members of the page are ignored.
    assert_eq!(
        (
            &started["options"]["rp"]["id"],
            &started["options"]["attestation"]
        ),
        (&json!(SITE), &json!("none"))
    );
    let answer = authenticator.register(&started["options"]);
    let body = json!({ "registrationToken": started["registrationToken"], "attestationResponse": answer, "name": name });
    page.expect_message("useWebAuthnRegister", body, ADDED)
}

/// Signs in with a passkey alone.
fn enter(page: &mut Page, authenticator: &mut Authenticator) {
    let started = page
        .call("usePasskeyLoginOptions", json!({ "identifier": EMAIL }))
        .0;
    let body = json!({ "passkeyToken": started["passkeyToken"], "assertionResponse": authenticator.assert(&started["options"]) });
    let (user, state) = page.call("usePasskeyLogin", body);
    assert_eq!(user["email"], EMAIL);
    page.assert_signed_in(&state, "/home");
}

async fn the_passkey_hooks_work(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    page.register(&post).await;
    let (mut first, mut second) = (Authenticator::p256(), Authenticator::ed25519());
    let made = add(&mut page, &app, &mut first, "Laptop").await;
    assert_eq!(texts(&made["recoveryCodes"]).len(), 10);
    let other = add(&mut page, &app, &mut second, "Phone").await;
    assert_eq!(other["recoveryCodes"], json!([]));
    let listed = page.read("useWebAuthnCredentials")["credentials"].clone();
    assert_eq!(
        (&listed[0]["name"], &listed[1]["credentialId"]),
        (&json!("Laptop"), &other["credentialId"])
    );
    // The passkey is a second factor. The session proved it only when it added the passkey. Later,
    // the user must prove the passkey with a new sign-in.
    app.advance(901).await;
    page.refused(
        "useWebAuthnRemoveCredential",
        other["credentialId"].clone(),
        403,
        "step_up_required",
    );
    page.logout();

    let (challenge, state) = page.call("useLogin", json!({ "email": EMAIL, "password": GOOD }));
    assert_eq!(
        (&challenge["mfaMethods"], &state["pending"]),
        (&json!(["webauthn"]), &json!(["webauthn"]))
    );
    let answer = first.assert(&challenge["webauthnOptions"]);
    let (_, state) = page.call(
        "useMfaVerify",
        json!({ "method": "webauthn", "webauthnResponse": answer }),
    );
    page.assert_signed_in(&state, "/home");
    page.expect_message(
        "useWebAuthnRemoveCredential",
        other["credentialId"].clone(),
        REMOVED,
    );
    assert_eq!(
        page.read("useWebAuthnCredentials")["credentials"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    page.logout();

    enter(&mut page, &mut first);
    page.expect_message(
        "useWebAuthnDisable",
        json!(null),
        "All passkeys were removed.",
    );
    assert_eq!(
        page.read("useWebAuthnCredentials"),
        json!({ "credentials": [] })
    );
    page.assert_called(HOOKS);
}

/// Without second factors, a recent sign-in is the only proof that the client can give, even if the
/// account has a password.
async fn a_passkey_that_is_no_factor_needs_a_recent_sign_in(mode: Mode) {
    let post = Post::default();
    let app = app(&post, |auth| {
        auth.configure(|config| {
            (config.auth.mfa.enabled, config.auth.mfa.email_otp.enabled) = (false, false);
        })
    })
    .await;
    let mut page = Page::open(&app, mode);
    page.register(&post).await;
    let made = add(&mut page, &app, &mut Authenticator::p256(), "Laptop").await;
    assert_eq!(made["recoveryCodes"], json!([]));
    app.advance(301).await;
    page.refused(
        "useWebAuthnRemoveCredential",
        made["credentialId"].clone(),
        403,
        "step_up_required",
    );
    page.refused("useWebAuthnDisable", json!(null), 403, "step_up_required");
    page.logout();
    page.call("useLogin", json!({ "email": EMAIL, "password": GOOD }));
    page.expect_message(
        "useWebAuthnRemoveCredential",
        made["credentialId"].clone(),
        REMOVED,
    );
    add(&mut page, &app, &mut Authenticator::p256(), "Phone").await;
    page.expect_message(
        "useWebAuthnDisable",
        json!(null),
        "All passkeys were removed.",
    );
}
