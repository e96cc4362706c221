//! Routes to delete the caller's account and to cancel the deletion.

use std::sync::Arc;

use linchpin::http::{AnswerDesc, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Result};

use super::account::caller;
use super::mailed::{invalid, message_reply};
use super::mfa_shapes::{proof_input, proof_refused};
use super::shapes::{CancelInput, Said, Scheduled};
use super::{CoreCell, route, with_core};
use crate::config::AuthConfig;
use crate::core::Core;
use crate::error::{CSRF_FAILED, HOOK_REJECTED, HOOK_TIMEOUT, INVALID_TOKEN, NOT_SCHEDULED};
use crate::flow::Need;
use crate::guards::checked_session;
use crate::limit::Bucket;
use crate::onetime::Purpose;
use crate::secret::SecretText;

proof_input! {
    /// Proof for the deletion of the caller's account.
    DeleteInput {}
}

static DELETE_ME: Route<DeleteInput> = route(Route::delete("delete_me", "me"))
    .doc("Schedules the deletion of the caller's account. The deletion can be cancelled until it is due.")
    .auth("userAuth")
    .answers(&[
        AnswerDesc::of::<Scheduled>(
            202,
            "The deletion is scheduled. Only this session continues, with few rights.",
        ),
        AnswerDesc::of::<Said>(200, "The account is deleted."),
    ])
    .errors(proof_refused!(HOOK_REJECTED, HOOK_TIMEOUT));
static CANCEL: Route<CancelInput> = route(Route::post("cancel_deletion", "cancel-deletion"))
    .doc(
        "Cancels the deletion of the caller's account, or of the account for which a token was \
         mailed. This token opens no session.",
    )
    .public()
    .answers(&[AnswerDesc::of::<Said>(200, "The deletion is cancelled.")])
    .errors(&[
        INVALID_TOKEN,
        Code::Unauthorized,
        NOT_SCHEDULED,
        CSRF_FAILED,
        Code::Conflict,
    ]);

/// The routes, if users may delete their accounts.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    if !config.auth.account_deletion.enabled {
        return Vec::new();
    }
    let mount = config.auth.mount.as_str();
    vec![
        DELETE_ME.bind(mount, with_core(core_cell, delete)),
        CANCEL.bind(mount, with_core(core_cell, cancel)),
    ]
}

pub(super) async fn delete(
    core: Arc<Core>,
    call: PluginCall,
    mut input: DeleteInput,
) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let user = core
        .users
        .get(&client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.limiter
        .take_in_session(
            Bucket::DeleteAccount,
            Bucket::DeleteAccountUser,
            &user.id,
            &known.handle,
        )
        .await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::Proof)
        .await?;
    let scheduled = core
        .schedule_deletion(&client, &user, &known, proof)
        .await?;
    match scheduled.deletion_due_at {
        Some(due) if client.now < due => Reply::json(
            202,
            &Scheduled {
                ok: true,
                deletion_scheduled_for: due,
            },
        ),
        _ => {
            // The account counts as deleted already. If the removal fails, the background job
            // repeats it.
            if let Err(error) = core.purge(&scheduled).await {
                tracing::warn!(error = ?error, "a deleted account was not removed; the job tries again");
            }
            Ok(core
                .cookies
                .clear(message_reply("The account was deleted.")?))
        }
    }
}

pub(super) async fn cancel(core: Arc<Core>, call: PluginCall, input: CancelInput) -> Result<Reply> {
    let client = core.client(&call);
    let cx = client.cx();
    let token = match input.token.map(SecretText::from) {
        Some(token) => Some(
            core.parts
                .tokens
                .find(&cx, Purpose::CancelDeletion, token.expose())
                .await?
                .ok_or_else(invalid)?,
        ),
        None => None,
    };
    let id = match &token {
        Some(token) => token.user_id.clone(),
        None => call
            .cx
            .get_actor()
            .and_then(|actor| checked_session(actor))
            .map(|known| known.user_id.clone())
            .ok_or_else(Error::unauthorized)?,
    };
    let gone = || {
        if token.is_some() {
            invalid()
        } else {
            Error::unauthorized()
        }
    };
    let user = core
        .users
        .get(&cx, id)
        .await?
        .filter(|user| !user.is_gone(client.now))
        .ok_or_else(gone)?;
    core.cancel_deletion(&client, &user, token.as_ref()).await?;
    message_reply("The account stays.")
}
