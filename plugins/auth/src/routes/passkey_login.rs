//! Routes for sign-in with a passkey.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Error, Result};
use serde_json::json;

use super::mailed::count_by_ip;
use super::passkey_shapes::{LoginInput, LoginOptions};
use crate::core::{AuditEvent, Client, Core};
use crate::error::{ACCOUNT_SUSPENDED, INVALID_CHALLENGE, WEBAUTHN_FAILED, refuse};
use crate::flow::Proved;
use crate::flow::passkeys::{PasskeyRequest, Unproved, Used, should_retry};
use crate::limit::{Bucket, Hit};
use crate::onetime::{OneTime, Purpose, Terms};

const OPTIONS_LIFETIME: Duration = Duration::from_mins(2);
const PASSKEY: &str = "passkey";

pub(super) async fn login_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let client = core.client(&call);
    count_by_ip(&core, &client, Bucket::PasskeyOptions).await?;
    let (request, options) =
        core.assertion_options(&[], core.config.auth.passkeys.user_verification)?;
    let terms = Terms {
        only_newest: false,
        ..Terms::link(OPTIONS_LIFETIME)
    };
    let token = core
        .parts
        .tokens
        .issue(&client.cx(), Purpose::PasskeyLogin, "", &request, terms)
        .await?;
    Reply::json(
        200,
        &LoginOptions {
            options,
            passkey_token: token.expose().to_owned(),
        },
    )
}

pub(super) async fn login(core: Arc<Core>, call: PluginCall, input: LoginInput) -> Result<Reply> {
    core.may_sign_in(&call, "passkey/login").await?;
    let client = core.client(&call);
    let cx = client.cx();
    let attempt = core
        .limiter
        .take(&[Hit {
            bucket: Bucket::PasskeyLogin,
            key: &[&client.limit_key()],
        }])
        .await?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = core
        .parts
        .tokens
        .find(&cx, Purpose::PasskeyLogin, &input.passkey_token)
        .await?
        .ok_or_else(invalid)?;
    let request: PasskeyRequest = core.parts.tokens.payload(&found)?;
    let policy = core.config.auth.passkeys.user_verification;
    let mut hook_ran = false;
    for tried in 0.. {
        let checked = core
            .check_passkey(
                &cx,
                &client,
                &request,
                input.assertion_response.clone(),
                None,
                policy,
            )
            .await?;
        let used = match checked {
            Ok(used) => used,
            Err(unproved) => return Err(failed(&core, &client, &found, unproved).await?),
        };
        if used.user.suspended_at.is_some() {
            attempt.undo().await;
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        if !std::mem::replace(&mut hook_ran, true)
            && let Err(refusal) = core.run_pre_login(&client, PASSKEY, &used.user).await
        {
            attempt.undo().await;
            return Err(refusal);
        }
        let stored = cx
            .transaction(async |cx| {
                if !core.parts.tokens.take(cx, &found).await? {
                    return Err(invalid());
                }
                core.store_passkey_use(cx, &client, &used).await
            })
            .await;
        if should_retry(&stored, tried) {
            continue;
        }
        stored?;
        attempt.succeeded().await;
        let passkey = used.credential.id.clone();
        return core
            .complete_with(&client, proved(used), Some(&passkey))
            .await;
    }
    Err(invalid())
}

/// A passkey that verified its user counts as two factors.
fn proved(used: Used) -> Proved {
    let verified = used.asserted.flags.user_verified;
    let amr: &[&str] = if verified {
        &["pop", "user", "mfa"]
    } else {
        &["pop", "user"]
    };
    Proved {
        user: used.user,
        method: PASSKEY,
        amr,
        aal: if verified { 2 } else { 1 },
        status: 200,
    }
}

/// Writes the audit entry of a refused passkey, and consumes the options of the sign-in.
async fn failed(
    core: &Core,
    client: &Client,
    found: &OneTime,
    unproved: Unproved,
) -> Result<Error> {
    let happened = AuditEvent {
        event: "auth:login.failed",
        user: unproved.user.as_deref(),
        session: None,
        outcome: "webauthn_failed",
        details: json!({ "method": PASSKEY, "reason": unproved.fault.0 }),
    };
    let cx = client.cx();
    cx.transaction(async |cx| {
        core.parts.tokens.take(cx, found).await?;
        if let Some(copied) = &unproved.copied {
            core.mark_copied(cx, client, copied).await?;
        }
        core.audit(cx, client, happened).await
    })
    .await?;
    Ok(refuse(WEBAUTHN_FAILED))
}
