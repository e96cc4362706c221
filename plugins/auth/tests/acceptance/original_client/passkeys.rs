//! Passkeys, by the client.

use serde_json::json;

use super::{EMAIL, Mode, Page, app, both_modes};
use crate::authenticator::{Authenticator, SITE};
use crate::factor::texts;
use crate::post::Post;
use crate::server::{GOOD, Server};

both_modes!(passkeys, a_passkey_that_is_no_factor);

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

/// Adds a passkey; the answer.
async fn add(
    page: &mut Page,
    app: &Server,
    authenticator: &mut Authenticator,
    name: &str,
) -> serde_json::Value {
    // The newer of two is the one that counts: the clock, which stands still, goes on a little.
    app.post("/__test/clock", json!({ "advanceSeconds": 0.001 }))
        .await;
    let begun = page.call("useWebAuthnRegisterOptions", json!(null)).0;
    // Extra members of the page are ignored.
    assert_eq!(
        (
            &begun["options"]["rp"]["id"],
            &begun["options"]["attestation"]
        ),
        (&json!(SITE), &json!("none"))
    );
    let answer = authenticator.register(&begun["options"]);
    let body = json!({ "registrationToken": begun["registrationToken"], "attestationResponse": answer, "name": name });
    page.says("useWebAuthnRegister", body, ADDED)
}

/// Signs in with a passkey alone.
fn enter(page: &mut Page, authenticator: &mut Authenticator) {
    let begun = page
        .call("usePasskeyLoginOptions", json!({ "identifier": EMAIL }))
        .0;
    let body = json!({ "passkeyToken": begun["passkeyToken"], "assertionResponse": authenticator.assert(&begun["options"]) });
    let (user, state) = page.call("usePasskeyLogin", body);
    assert_eq!(user["email"], EMAIL);
    page.is_signed_in(&state, "/home");
}

async fn passkeys(mode: Mode) {
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
    // It is a second factor, and this session has proved none but by adding it: long after, the
    // client proves one by signing in.
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
    page.is_signed_in(&state, "/home");
    page.says(
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
    page.says(
        "useWebAuthnDisable",
        json!(null),
        "All passkeys were removed.",
    );
    assert_eq!(
        page.read("useWebAuthnCredentials"),
        json!({ "credentials": [] })
    );
    page.has_called(HOOKS);
}

/// Without second factors, a recent sign-in is the only proof of the client, also with a password.
async fn a_passkey_that_is_no_factor(mode: Mode) {
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
    page.says(
        "useWebAuthnRemoveCredential",
        made["credentialId"].clone(),
        REMOVED,
    );
    add(&mut page, &app, &mut Authenticator::p256(), "Phone").await;
    page.says(
        "useWebAuthnDisable",
        json!(null),
        "All passkeys were removed.",
    );
}
