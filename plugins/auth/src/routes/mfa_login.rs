//! Routes for the second factor of a sign-in.

use std::sync::Arc;

use linchpin::http::{AnswerDesc, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Result};

use super::mfa_shapes::{ResendInput, Resent, VerifyInput};
use super::shapes::Authenticated;
use super::{CoreCell, DEVICE, route, with_core};
use crate::config::AuthConfig;
use crate::core::Core;
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, INVALID_CHALLENGE, INVALID_CODE, INVALID_CREDENTIALS,
    METHOD_UNAVAILABLE,
};
use crate::flow::Answer;
use crate::secret::SecretText;

static VERIFY: Route<VerifyInput> = route(Route::post("mfa_verify", "mfa/verify"))
    .doc(
        "Completes a sign-in with its second factor.\n\nThe error for a wrong code contains the number of remaining attempts.",
    )
    .public()
    .reads(DEVICE)
    .answers(&[AnswerDesc::sparse::<Authenticated>(200, "Signed in.")])
    .errors(&[
        INVALID_CODE,
        INVALID_CHALLENGE,
        INVALID_CREDENTIALS,
        METHOD_UNAVAILABLE,
        ACCOUNT_SUSPENDED,
        CSRF_FAILED,
        Code::RateLimited,
    ]);
static RESEND: Route<ResendInput> = route(Route::post("mfa_resend", "mfa/resend"))
    .doc("Sends another code for a sign-in. The previous one no longer works.")
    .public()
    .answers(&[AnswerDesc::sparse::<Resent>(
        200,
        "A code was sent, or the response has options for a passkey.",
    )])
    .errors(&[
        METHOD_UNAVAILABLE,
        INVALID_CHALLENGE,
        ACCOUNT_SUSPENDED,
        CSRF_FAILED,
        Code::RateLimited,
    ]);

pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let mount = config.auth.mount.as_str();
    vec![
        VERIFY.bind(mount, with_core(core_cell, verify)),
        RESEND.bind(mount, with_core(core_cell, resend)),
    ]
}

pub(super) async fn verify(core: Arc<Core>, call: PluginCall, input: VerifyInput) -> Result<Reply> {
    core.may_sign_in(&call, "mfa/verify").await?;
    let answer = Answer {
        token: SecretText::from(input.mfa_token),
        method: input.method,
        code: input.code.map(SecretText::from),
        webauthn: input.webauthn_response,
        trusts_device: input.trust_device.unwrap_or(false),
    };
    core.answer_second(&core.client(&call), answer).await
}

pub(super) async fn resend(core: Arc<Core>, call: PluginCall, input: ResendInput) -> Result<Reply> {
    core.may_sign_in(&call, "mfa/resend").await?;
    let webauthn_options = core
        .resend(
            &core.client(&call),
            &SecretText::from(input.mfa_token),
            input.method,
        )
        .await?;
    let message = if webauthn_options.is_some() {
        "The browser can be asked for the passkey."
    } else {
        "A code has been sent."
    };
    Reply::sparse(
        200,
        &Resent {
            ok: true,
            message: message.to_owned(),
            webauthn_options,
        },
    )
}
