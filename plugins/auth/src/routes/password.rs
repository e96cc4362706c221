//! Routes to change, request and reset passwords.

use std::sync::Arc;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Error, Result};

use super::account::caller;
use super::mailed::{count_by_ip, message_reply, queue_lookup};
use super::shapes::{EmailInput, ResetInput, SetPasswordInput};
use crate::config::OnPasswordChange;
use crate::core::Core;
use crate::entities::SessionPatch;
use crate::error::{CURRENT_PASSWORD_REQUIRED, INVALID_TOKEN, conflict, refuse};
use crate::flow::{Cause, Need};
use crate::identity::normalise;
use crate::limit::Bucket;
use crate::onetime::Purpose;
use crate::outbox::RequestedMail;
use crate::secret::SecretText;

pub(super) async fn forgot(core: Arc<Core>, call: PluginCall, input: EmailInput) -> Result<Reply> {
    let email = normalise::email(&input.email).map_err(|what| Error::invalid(what.at("email")))?;
    let client = core.client(&call);
    count_by_ip(&core, &client, Bucket::Forgot).await?;
    queue_lookup(
        &core,
        &client,
        Bucket::ForgotIdentifier,
        RequestedMail::PasswordReset,
        email.normalised,
    )
    .await?;
    message_reply("If that email is registered, a password reset link has been sent.")
}

pub(super) async fn reset(core: Arc<Core>, call: PluginCall, input: ResetInput) -> Result<Reply> {
    let client = core.client(&call);
    let cx = client.cx();
    count_by_ip(&core, &client, Bucket::ResetPassword).await?;
    let (token, typed) = (
        SecretText::from(input.token),
        SecretText::from(input.password),
    );
    let invalid = || refuse(INVALID_TOKEN);
    let found = core
        .parts
        .tokens
        .find(&cx, Purpose::ResetPassword, token.expose())
        .await?
        .ok_or_else(invalid)?;
    let user = core.users.get(&cx, found.user_id.as_str()).await?;
    let user = user
        .filter(|user| !user.is_gone(client.now) && user.suspended_at.is_none())
        .ok_or_else(invalid)?;
    let hash = core
        .check_new_password(&client, &user, &typed, Cause::Reset)
        .await?;
    // This runs before the token is consumed: if the counters are not reachable, the token stays
    // valid.
    core.unlock(&client, &user.identifier).await?;
    let stored = cx
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            let user = core.lock_current(cx, &user).await.map_err(conflict)?;
            core.store_password(cx, &client, &user, hash, Cause::Reset, None)
                .await
        })
        .await;
    core.checks.forget(&user.id);
    stored?;
    core.password_changed(&client, &user.id, Cause::Reset);
    message_reply("The password was set. Sign in with it.")
}

pub(super) async fn set(
    core: Arc<Core>,
    call: PluginCall,
    input: SetPasswordInput,
) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let cx = client.cx();
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    let typed = SecretText::from(input.password);
    let cause = match &user.password_hash {
        Some(_) => {
            let current = input
                .current_password
                .map(SecretText::from)
                .ok_or_else(|| refuse(CURRENT_PASSWORD_REQUIRED))?;
            core.prove_password(&client, &known, &user, &current)
                .await?;
            Cause::Change
        }
        None => {
            core.require(&client, &known, &user, Need::Recent)?;
            Cause::Set
        }
    };
    let hash = core
        .check_new_password(&client, &user, &typed, cause)
        .await?;
    let reissues =
        core.config.auth.session.on_password_change == OnPasswordChange::RevokeAllAndReissue;
    let stored = cx
        .transaction(async |cx| {
            let user = core.lock_with_password(cx, &user).await.map_err(conflict)?;
            core.store_password(cx, &client, &user, hash, cause, Some(&known.handle))
                .await?;
            if reissues {
                core.reissue(cx, &client, &known, &[], SessionPatch::default)
                    .await
                    .map(Some)
            } else {
                Ok(None)
            }
        })
        .await;
    core.checks.forget(&user.id);
    let reissued = stored?;
    core.password_changed(&client, &user.id, cause);
    match reissued {
        None => message_reply("The password was set."),
        Some((session, sid)) => core.renewed(&client, &session, &sid, None),
    }
}
