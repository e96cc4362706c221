//! Routes that send mail: verification of an address, and links that sign in. The response does not
//! show whether the account exists.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{PluginCall, Reply};
use linchpin::{Code, Error, Problem, Result};

use super::session_of;
use super::shapes::{MagicLinkInput, OptionalEmailInput, Said, TokenInput};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{User, UserPatch};
use crate::error::{ACCOUNT_SUSPENDED, INVALID_TOKEN, conflict, refuse};
use crate::flow::{NewAccount, Proved, Reason};
use crate::guards::checked_session;
use crate::hooks::SignUp;
use crate::identity::normalise;
use crate::limit::{Bucket, Hit};
use crate::mail::MailKind;
use crate::onetime::{OneTime, Purpose};
use crate::outbox::{RequestedMail, Task};
use crate::secret::SecretText;

/// The method of a sign-in by a mailed link.
const MAGIC_LINK: &str = "magicLink";
/// Time after which a requested look-up is dropped.
const LOOKUP_LIFETIME: Duration = Duration::from_mins(15);

/// Counts a request by its client address.
///
/// # Errors
/// 429.
pub(super) async fn count_by_ip(core: &Core, client: &Client, bucket: Bucket) -> Result<()> {
    core.limiter
        .take(&[Hit {
            bucket,
            key: &[&client.limit_key()],
        }])
        .await
        .map(drop)
}

/// Queues a look-up. Other people can exhaust the limit of an identifier. Then a mail is sent only
/// if no earlier link is valid, so the owner of the mailbox always has a valid link. No response
/// shows whether the limit is exhausted.
///
/// # Errors
/// 503 if it cannot be stored.
pub(super) async fn queue_lookup(
    core: &Core,
    client: &Client,
    bucket: Bucket,
    what: RequestedMail,
    identifier: String,
) -> Result<()> {
    let full = core
        .limiter
        .admit(&[Hit {
            bucket,
            key: &[&identifier],
        }])
        .await?
        .is_err();
    core.parts
        .outbox
        .put(
            &client.cx(),
            &Task::Lookup {
                what,
                identifier,
                full,
                from: client.into(),
            },
            Some(LOOKUP_LIFETIME),
        )
        .await
}

/// A response with a text for users.
pub(super) fn message_reply(message: &str) -> Result<Reply> {
    Reply::json(
        200,
        &Said {
            ok: true,
            message: message.to_owned(),
        },
    )
}

pub(super) async fn resend_verification(
    core: Arc<Core>,
    call: PluginCall,
    input: OptionalEmailInput,
) -> Result<Reply> {
    let client = core.client(&call);
    let email = match input.email {
        Some(typed) => {
            normalise::email(&typed)
                .map_err(|what| Error::invalid(what.at("email")))?
                .normalised
        }
        None => {
            let known = call
                .cx
                .get_actor()
                .and_then(|actor| checked_session(actor).cloned());
            let known = known.ok_or_else(|| {
                Error::invalid(Problem::new(
                    "email",
                    "required",
                    "is required without a session",
                ))
            })?;
            let user = core.users.get(&client.cx(), known.user_id.as_str()).await?;
            user.and_then(|user| user.email_normalised)
                .unwrap_or_default()
        }
    };
    count_by_ip(&core, &client, Bucket::Resend).await?;
    queue_lookup(
        &core,
        &client,
        Bucket::ResendIdentifier,
        RequestedMail::Verification,
        email,
    )
    .await?;
    message_reply("If that email needs verification, a message has been sent.")
}

pub(super) async fn verify_email(
    core: Arc<Core>,
    call: PluginCall,
    input: TokenInput,
) -> Result<Reply> {
    prove_mailbox(&core, &call, input).await?;
    message_reply("The address is verified.")
}

/// Performs the action of a mailed token: verifies, changes or restores an address. Returns the
/// purpose of the token.
///
/// # Errors
/// 400 `invalid_token`; 409; 429.
pub(super) async fn prove_mailbox(
    core: &Core,
    call: &PluginCall,
    input: TokenInput,
) -> Result<Purpose> {
    let client = core.client(call);
    let cx = client.cx();
    count_by_ip(core, &client, Bucket::VerifyEmail).await?;
    let token = SecretText::from(input.token);
    let mut found = None;
    for purpose in [
        Purpose::VerifyEmail,
        Purpose::VerifyNewEmail,
        Purpose::UndoEmail,
    ] {
        found = core.parts.tokens.find(&cx, purpose, token.expose()).await?;
        if found.is_some() {
            break;
        }
    }
    let found = found.ok_or_else(invalid)?;
    let user = core
        .users
        .get(&cx, found.user_id.as_str())
        .await?
        .filter(|user| !user.is_gone(client.now))
        .ok_or_else(invalid)?;
    match found.purpose {
        Purpose::VerifyNewEmail => core.complete_email_change(&client, &user, &found).await?,
        Purpose::UndoEmail => core.undo_email(&client, &user, &found).await?,
        _ => {
            let session = session_of(core, call)
                .await?
                .filter(|known| known.user_id == user.id);
            prove_address(
                core,
                &client,
                &user,
                &found,
                session.as_ref().map(|known| known.handle.as_str()),
            )
            .await?;
        }
    }
    Ok(found.purpose)
}

/// Verifies the current address of an account, which confirms the sign-up. Additions since the
/// sign-up are removed (see `drop_added`), unless the link is followed in a session of the account:
/// then the same person made them. `session` is the handle of that session.
async fn prove_address(
    core: &Core,
    client: &Client,
    user: &User,
    found: &OneTime,
    session: Option<&str>,
) -> Result<()> {
    let proved: String = core.parts.tokens.payload(found)?;
    // The token verifies only the address to which it was sent.
    if user.email_normalised.as_ref() != Some(&proved) {
        return Err(invalid());
    }
    let verified = client
        .cx()
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, found).await? {
                return Err(invalid());
            }
            if user.email_verified_at.is_none() {
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
                let is_own_session = match session {
                    Some(session) => core.is_live(cx, client, session, &user.id).await?,
                    None => false,
                };
                if !is_own_session {
                    core.drop_added(cx, client, &user).await?;
                }
            }
            Ok(())
        })
        .await;
    core.checks.forget(&user.id);
    verified
}

pub(super) async fn magic_request(
    core: Arc<Core>,
    call: PluginCall,
    input: MagicLinkInput,
) -> Result<Reply> {
    let client = core.client(&call);
    let primary = core.config.auth.primary_field;
    let identifier = primary
        .parse(&input.identifier)
        .map_err(|what| Error::invalid(what.at("identifier")))?;
    count_by_ip(&core, &client, Bucket::MagicRequest).await?;
    queue_lookup(
        &core,
        &client,
        Bucket::MagicRequestIdentifier,
        RequestedMail::MagicLink,
        identifier.normalised,
    )
    .await?;
    message_reply("If an account exists, a sign-in link has been sent.")
}

pub(super) async fn magic_verify(
    core: Arc<Core>,
    call: PluginCall,
    input: TokenInput,
) -> Result<Reply> {
    core.may_sign_in(&call, "magic-link/verify").await?;
    let client = core.client(&call);
    let cx = client.cx();
    count_by_ip(&core, &client, Bucket::MagicVerify).await?;
    let token = SecretText::from(input.token);
    if core.config.auth.magic_link.allow_sign_up
        && let Some(found) = core
            .parts
            .tokens
            .find(&cx, Purpose::SignUp, token.expose())
            .await?
    {
        return sign_up(&core, &client, &found).await;
    }
    let (found, user) =
        find_sign_in_token(&core, &client, Purpose::MagicLink, MAGIC_LINK, &token).await?;
    let proved = cx
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            verify_mailbox_first_time(&core, cx, &client, &user).await
        })
        .await;
    core.checks.forget(&user.id);
    let user = proved?;
    core.complete_primary(
        &client,
        Proved {
            user,
            method: MAGIC_LINK,
            amr: &["otp"],
            aal: 1,
            status: 200,
        },
    )
    .await
}

/// Creates the account for a link to an address without one, and signs in. The link verifies the
/// mailbox.
async fn sign_up(core: &Core, client: &Client, found: &OneTime) -> Result<Reply> {
    let typed: String = core.parts.tokens.payload(found)?;
    let email = normalise::email(&typed).map_err(|what| Error::invalid(what.at("token")))?;
    let hook_cx = core.hook_cx(client);
    let mut hook_input = SignUp {
        identifier: email.normalised.clone(),
        method: MAGIC_LINK,
        user_id: None,
    };
    core.hooks
        .run_pre(&hook_cx, &hook_input, |hooks, cx, input| {
            hooks.pre_register(cx, input)
        })
        .await?;
    let new = NewAccount {
        email_verified_at: Some(client.now),
        password_hash: None,
        method: MAGIC_LINK,
        ..NewAccount::signed_up(core, email.clone(), Some(email), String::new())
    };
    let made = core.create_account_with(client, new, Some(found)).await;
    // Another sign-up used the address meanwhile, so the link is void.
    let user = made.map_err(|error| {
        if error.code() == Code::Conflict {
            invalid()
        } else {
            error
        }
    })?;
    hook_input.user_id = Some(user.id.clone());
    core.hooks
        .spawn_post("post_register", hook_cx, hook_input, |hooks, cx, input| {
            hooks.post_register(cx, input)
        });
    core.complete_primary(
        client,
        Proved {
            user,
            method: MAGIC_LINK,
            amr: &["otp"],
            aal: 1,
            status: 200,
        },
    )
    .await
}

/// Returns a mailed token that signs in, which is not consumed yet, and its account.
///
/// # Errors
/// 400 `invalid_token`; 403 `account_suspended`; the refusal of a hook.
pub(super) async fn find_sign_in_token(
    core: &Core,
    client: &Client,
    purpose: Purpose,
    method: &'static str,
    token: &SecretText,
) -> Result<(OneTime, User)> {
    let cx = client.cx();
    let found = core
        .parts
        .tokens
        .find(&cx, purpose, token.expose())
        .await?
        .ok_or_else(invalid)?;
    let user = core
        .users
        .get(&cx, found.user_id.as_str())
        .await?
        .filter(|user| !user.is_gone(client.now))
        .ok_or_else(invalid)?;
    if user.suspended_at.is_some() {
        return Err(refuse(ACCOUNT_SUSPENDED));
    }
    core.run_pre_login(client, method, &user).await?;
    Ok((found, user))
}

/// The error for an unknown, used or expired token.
pub(super) fn invalid() -> Error {
    refuse(INVALID_TOKEN)
}

/// Verifies an account's mailbox. The first verification removes the password, the sessions and
/// everything else that was set up before.
async fn verify_mailbox_first_time(
    core: &Core,
    cx: &linchpin::Cx,
    client: &Client,
    user: &User,
) -> Result<User> {
    if user.email_verified_at.is_some() {
        return Ok(user.clone());
    }
    let user = &core.lock_current(cx, user).await.map_err(conflict)?;
    let patch = UserPatch {
        password_hash: Some(None),
        password_version: Some(user.password_version + 1),
        session_epoch: Some(user.session_epoch + 1),
        ..user.proved(client.now)
    };
    let proved = core
        .users
        .update(cx, user.id.as_str(), patch, Some(user.version))
        .await
        .map_err(conflict)?;
    for session in core.sessions_of(cx, &user.id).await? {
        core.end(cx, client, &session, Reason::Proved).await?;
    }
    core.audit(
        cx,
        client,
        AuditEvent::about("auth:email.verified", &user.id),
    )
    .await?;
    if core.audit_dropped_password(cx, client, user).await? {
        core.parts
            .notice(cx, client, &proved, MailKind::PasswordChanged)
            .await?;
    }
    core.drop_unproved(cx, client, &user.id).await
}
