//! Changes of a password: the checks of the new password, and the write that stores it.

use linchpin::{Cx, Error, PageArgs, Result};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::entities::{PasswordHistoryCreate, SessionPatch, User, UserPatch};
use crate::error::{PASSWORD_REUSED, conflict, refuse_field};
use crate::flow::Reason;
use crate::hooks::PasswordChange;
use crate::mail::MailKind;
use crate::onetime::Purpose;
use crate::secret::SecretText;

/// Pending flows that end with a change of the password. Anyone who knew the former one may have
/// requested a change of the address.
const VOID_ON_CHANGE: &[Purpose] = &[
    Purpose::VerifyAndLogin,
    Purpose::VerifyNewEmail,
    Purpose::Login,
    Purpose::Reauth,
];

/// Pending flows that end too if the owner sets the password by mail. A change in a session does
/// not end them: a thief who knows the password could otherwise change it repeatedly, so that no
/// mailed link would work for the owner.
const VOID_ON_RESET: &[Purpose] = &[Purpose::ResetPassword, Purpose::MagicLink];

/// The cause of a change of the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The account had none.
    Set,
    /// The owner is signed in and knows the former password.
    Change,
    /// The owner verified the mailbox.
    Reset,
}

impl Cause {
    const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Change => "change",
            Self::Reset => "reset",
        }
    }
}

impl Core {
    /// Checks a new password in this order: policy, history, breaches, hook. Then it hashes the
    /// password. Nothing is written.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) async fn check_new_password(
        &self,
        client: &Client,
        user: &User,
        typed: &SecretText,
        cause: Cause,
    ) -> Result<String> {
        let names: Vec<&str> = [
            Some(&user.identifier),
            Some(&user.identifier_display),
            user.email_normalised.as_ref(),
            user.email.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
        let password = self.policy.check(typed, &names)?;
        let earlier = self.earlier_passwords(client, user).await?;
        if !earlier.is_empty() && self.hasher.is_one_of(password.clone(), earlier).await? {
            return Err(refuse_field(PASSWORD_REUSED, "password"));
        }
        self.breaches.check(&password).await?;
        let change = PasswordChange {
            user_id: user.id.clone(),
            cause: cause.name(),
        };
        self.hooks
            .run_pre(&self.hook_cx(client), &change, |hooks, cx, input| {
                hooks.pre_password_change(cx, input)
            })
            .await?;
        self.hasher.hash(password).await
    }

    /// The hashes of the current password and of former ones that may not be used again.
    async fn earlier_passwords(&self, client: &Client, user: &User) -> Result<Vec<String>> {
        let count = usize::try_from(self.config.auth.password.history_count).unwrap_or(0);
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut kept = self
            .parts
            .history
            .of_owner(&client.cx(), user.id.clone(), PageArgs::default())
            .await?
            .items;
        kept.sort_by_key(|earlier| std::cmp::Reverse(earlier.number));
        let kept = kept.into_iter().map(|earlier| earlier.password_hash);
        Ok(user
            .password_hash
            .iter()
            .cloned()
            .chain(kept)
            .take(count + 1)
            .collect())
    }

    /// Stores a new password in the caller's transaction, and ends sessions and pending flows of
    /// the former one. `kept_session` is the handle of the session that stays. The caller drops the
    /// cached sessions of the user after the transaction.
    ///
    /// # Errors
    /// 409 if the account changed since it was read; 401 if the session that stays has ended.
    pub(crate) async fn store_password(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        hash: String,
        cause: Cause,
        kept_session: Option<&str>,
    ) -> Result<User> {
        // The user may have ended the session while the password was checked and hashed.
        if let Some(kept_session) = kept_session
            && !self.is_live(cx, client, kept_session, &user.id).await?
        {
            return Err(Error::unauthorized());
        }
        // A reset by mail verifies the mailbox.
        let proves = cause == Cause::Reset && user.email_verified_at.is_none();
        let patch = UserPatch {
            password_hash: Some(Some(hash)),
            password_version: Some(user.password_version + 1),
            session_epoch: Some(user.session_epoch + 1),
            ..if proves {
                user.proved(client.now)
            } else {
                UserPatch::default()
            }
        };
        let mut changed = self
            .users
            .update(cx, user.id.clone(), patch, Some(user.version))
            .await
            .map_err(conflict)?;
        self.remember_password(cx, user).await?;
        self.parts.tokens.void(cx, &user.id, VOID_ON_CHANGE).await?;
        if cause == Cause::Reset {
            self.parts.tokens.void(cx, &user.id, VOID_ON_RESET).await?;
        }
        for session in self.sessions_of(cx, &user.id).await? {
            if kept_session == Some(session.handle.as_str()) {
                let patch = SessionPatch {
                    epoch: Some(changed.session_epoch),
                    ..SessionPatch::default()
                };
                self.sessions
                    .update(cx, session.handle, patch, None)
                    .await?;
            } else {
                self.end(cx, client, &session, Reason::PasswordChanged)
                    .await?;
            }
        }
        if proves {
            changed = self.drop_unproved(cx, client, &user.id).await?;
        }
        let event = if cause == Cause::Reset {
            "auth:password.reset"
        } else {
            "auth:password.changed"
        };
        self.audit(cx, client, AuditEvent::about(event, &user.id))
            .await?;
        let kind = if cause == Cause::Reset {
            MailKind::PasswordResetDone
        } else {
            MailKind::PasswordChanged
        };
        self.parts.notice(cx, client, &changed, kind).await?;
        Ok(changed)
    }

    /// Writes the audit log entry of a removed password, in the caller's transaction. Returns
    /// whether the account had a password.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn audit_dropped_password(
        &self,
        cx: &Cx,
        client: &Client,
        before: &User,
    ) -> Result<bool> {
        let had = before.password_hash.is_some();
        if had {
            let details = json!({ "reason": "unproved" });
            self.audit(
                cx,
                client,
                AuditEvent::about("auth:password.changed", &before.id).details(details),
            )
            .await?;
        }
        Ok(had)
    }

    /// Adds the former password to the history, and removes passwords that may be used again.
    async fn remember_password(&self, cx: &Cx, user: &User) -> Result<()> {
        let count = usize::try_from(self.config.auth.password.history_count).unwrap_or(0);
        let (Some(hash), true) = (&user.password_hash, count > 0) else {
            return Ok(());
        };
        let history = &self.parts.history;
        let earlier = PasswordHistoryCreate {
            user_id: user.id.clone(),
            password_hash: hash.clone(),
            number: user.password_version,
        };
        history.create(cx, earlier).await?;
        let mut kept = history
            .of_owner(cx, user.id.clone(), PageArgs::default())
            .await?
            .items;
        kept.sort_by_key(|earlier| std::cmp::Reverse(earlier.number));
        for old in kept.into_iter().skip(count) {
            history.delete(cx, old.id, None).await?;
        }
        Ok(())
    }

    /// Runs `post_password_change` in the background.
    pub(crate) fn password_changed(&self, client: &Client, user: &str, cause: Cause) {
        let change = PasswordChange {
            user_id: user.to_owned(),
            cause: cause.name(),
        };
        self.hooks.spawn_post(
            "post_password_change",
            self.hook_cx(client),
            change,
            |hooks, cx, input| hooks.post_password_change(cx, input),
        );
    }
}
