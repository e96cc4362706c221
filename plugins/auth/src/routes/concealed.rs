//! Concealed sign-ups: the response does not show whether the account exists; a mail informs the
//! owner of the address.

use std::sync::Arc;
use std::time::Duration;

use linchpin::Result;
use linchpin::http::{PluginCall, Reply};

use super::mailed::{count_by_ip, find_sign_in_token, invalid};
use super::shapes::{Said, TokenInput};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::error::conflict;
use crate::flow::Proved;
use crate::identity::normalise::Identifier;
use crate::keys::derive::Purpose;
use crate::limit::Bucket;
use crate::onetime;
use crate::outbox::{Concealed, Task};
use crate::password::SALT_BYTES;
use crate::secret::SecretText;

/// The method of a sign-in by the link of a concealed sign-up.
const METHOD: &str = "verifyAndLogin";

/// Time after which the task of a sign-up is dropped.
const TASK_LIFETIME: Duration = Duration::from_hours(24);

/// The salt of such a sign-up's password hash. It depends on the identifier only, so two equal
/// requests (for example after a double click) have equal hashes and are recognised.
pub(super) fn salt(core: &Core, identifier: &str) -> [u8; SALT_BYTES] {
    let mac = core.ring.mac(Purpose::Salt, &[identifier.as_bytes()]);
    std::array::from_fn(|at| mac[at])
}

/// Queues the sign-up. Only the background task checks whether the account exists, so the response
/// and the response time are the same in both cases.
pub(super) async fn queue_sign_up(
    core: &Core,
    client: &Client,
    identifier: Identifier,
    password_hash: String,
) -> Result<Reply> {
    let Identifier {
        normalised,
        display,
    } = identifier;
    let task = Task::SignUp(Concealed {
        normalised,
        display,
        password_hash,
        asked_at: client.now,
        from: client.into(),
    });
    core.parts
        .outbox
        .put(&client.cx(), &task, Some(TASK_LIFETIME))
        .await?;
    let message = "If that email can be used, a message has been sent to it.".to_owned();
    Reply::json(202, &Said { ok: true, message })
}

/// Consumes the token of a concealed sign-up: verifies the address and signs in.
pub(super) async fn verify_and_login(
    core: Arc<Core>,
    call: PluginCall,
    input: TokenInput,
) -> Result<Reply> {
    core.may_sign_in(&call, "verify-and-login").await?;
    let client = core.client(&call);
    count_by_ip(&core, &client, Bucket::VerifyAndLogin).await?;
    let token = SecretText::from(input.token);
    let (found, user) = find_sign_in_token(
        &core,
        &client,
        onetime::Purpose::VerifyAndLogin,
        METHOD,
        &token,
    )
    .await?;
    let verified_address: String = core.parts.tokens.payload(&found)?;
    if user.email_normalised.as_ref() != Some(&verified_address) {
        return Err(invalid());
    }
    let verified = client
        .cx()
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            verify(&core, cx, &client, &user).await
        })
        .await;
    core.checks.forget(&user.id);
    core.complete_primary(
        &client,
        Proved {
            user: verified?,
            method: METHOD,
            amr: &["otp"],
            aal: 1,
            status: 200,
        },
    )
    .await
}

async fn verify(core: &Core, cx: &linchpin::Cx, client: &Client, user: &User) -> Result<User> {
    if user.email_verified_at.is_some() {
        return Ok(user.clone());
    }
    let user = core.lock_current(cx, user).await.map_err(conflict)?;
    core.users
        .update(
            cx,
            user.id.as_str(),
            user.proved(client.now),
            Some(user.version),
        )
        .await
        .map_err(conflict)?;
    core.audit(
        cx,
        client,
        AuditEvent::about("auth:email.verified", &user.id),
    )
    .await?;
    core.drop_added(cx, client, &user).await?;
    core.users
        .get(cx, user.id.as_str())
        .await?
        .ok_or_else(invalid)
}
