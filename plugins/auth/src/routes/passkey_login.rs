//! Routes for sign-in with a passkey.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Error, Result};
use serde_json::json;

use super::mailed::by_ip;
use super::passkey_shapes::{LoginInput, LoginOptions};
use crate::core::{AuditEvent, Client, Core};
use crate::error::{ACCOUNT_SUSPENDED, INVALID_CHALLENGE, WEBAUTHN_FAILED, refuse};
use crate::flow::Proved;
use crate::flow::passkeys::{PasskeyRequest, Unproved, Used, should_retry};
use crate::limit::{Bucket, Hit};
use crate::onetime::{OneTime, Purpose, Terms};

const SIGNING_IN: Duration = Duration::from_mins(2);
const PASSKEY: &str = "passkey";

pub(super) async fn login_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let client = core.client(&call);
    by_ip(&core, &client, Bucket::PasskeyOptions).await?;
    let (asked, options) =
        core.ask_for_passkey(&[], core.config.auth.passkeys.user_verification)?;
    let terms = Terms {
        only_newest: false,
        ..Terms::link(SIGNING_IN)
    };
    let token = core
        .parts
        .tokens
        .issue(&client.cx(), Purpose::PasskeyLogin, "", &asked, terms)
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
            of: &[&client.counted()],
        }])
        .await?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = core
        .parts
        .tokens
        .find(&cx, Purpose::PasskeyLogin, &input.passkey_token)
        .await?
        .ok_or_else(invalid)?;
    let asked: PasskeyRequest = core.parts.tokens.payload(&found)?;
    let policy = core.config.auth.passkeys.user_verification;
    let mut hook_ran = false;
    for tried in 0.. {
        let judged = core
            .judge_passkey(
                &cx,
                &client,
                &asked,
                input.assertion_response.clone(),
                None,
                policy,
            )
            .await?;
        let used = match judged {
            Ok(used) => used,
            Err(unproved) => return Err(failed(&core, &client, &found, unproved).await?),
        };
        if used.user.suspended_at.is_some() {
            attempt.undo().await;
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        if !std::mem::replace(&mut hook_ran, true)
            && let Err(refusal) = core.ask_before(&client, PASSKEY, &used.user).await
        {
            attempt.undo().await;
            return Err(refusal);
        }
        let noted = cx
            .transaction(async |cx| {
                if !core.parts.tokens.take(cx, &found).await? {
                    return Err(invalid());
                }
                core.note_use(cx, &client, &used).await
            })
            .await;
        if should_retry(&noted, tried) {
            continue;
        }
        noted?;
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

/// Writes the audit of a refused passkey. Its options are used up.
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
            core.suspect(cx, client, copied).await?;
        }
        core.audit(cx, client, happened).await
    })
    .await?;
    Ok(refuse(WEBAUTHN_FAILED))
}
