//! The route to change the caller's email address.

use std::sync::Arc;

use linchpin::http::{AnswerDesc, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Error, Result};

use super::account::caller;
use super::mfa_shapes::{proof_input, proof_refused};
use super::shapes::Said;
use super::{CoreCell, route, with_core};
use crate::config::AuthConfig;
use crate::core::Core;
use crate::flow::Need;
use crate::identity::normalise;
use crate::limit::Bucket;

proof_input! {
    /// A new address, with proof.
    ChangeEmailInput {
        /// The new address. It replaces the current one after its mailbox is verified.
        email: String,
    }
}

static CHANGE_EMAIL: Route<ChangeEmailInput> = route(Route::post("change_email", "change-email"))
    .doc(
        "Mails a link to a new address. After the user follows the link, this address replaces the current one.\n\n\
         The current address gets a mail too, with a link that undoes the change for seven days. The \
         response does not show whether another account has the new address.",
    )
    .auth("userAuth")
    .answers(&[AnswerDesc::of::<Said>(
        202,
        "If the new address can be used, a link is mailed to it.",
    )])
    .errors(proof_refused!());

/// The route, if addresses are verified.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    if !config.auth.email_verification.enabled {
        return Vec::new();
    }
    vec![CHANGE_EMAIL.bind(config.auth.mount.as_str(), with_core(core_cell, change))]
}

pub(super) async fn change(
    core: Arc<Core>,
    call: PluginCall,
    mut input: ChangeEmailInput,
) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let new = normalise::email(&input.email).map_err(|what| Error::invalid(what.at("email")))?;
    let user = core
        .users
        .get(&client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.limiter
        .take_in_session(
            Bucket::ChangeEmail,
            Bucket::ChangeEmailUser,
            &user.id,
            &known.handle,
        )
        .await?;
    // A proof by mail does not count: anyone who reads the account's mail could otherwise replace
    // the owner's address.
    let proof = core
        .prove(
            &client,
            &known,
            &user,
            &input.take_proof(),
            Need::ProofButMail,
        )
        .await?;
    core.request_email_change(&client, &user, new, proof)
        .await?;
    let message = "If that email can be used, a message has been sent to it.".to_owned();
    Reply::json(202, &Said { ok: true, message })
}
