//! The end of sessions.

use linchpin::http::SessionWatches;
use linchpin::{Code, Cx, Result};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::entities::Session;
use crate::mail::MailKind;
use crate::onetime::Purpose;

/// The reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The user signed out.
    Logout,
    /// The user ended it from another session, or an administrator or the app ended it.
    Revoked,
    /// The account had too many sessions.
    Evicted,
    /// A refresh token was used twice.
    Reused,
    /// The account was suspended.
    Suspended,
    /// The password was changed.
    PasswordChanged,
    /// The account is deleted or scheduled for deletion.
    Deletion,
    /// The former address of the account was restored.
    EmailRestored,
    /// The session was opened before the mailbox was verified.
    Proved,
    /// The session was opened before the mailbox was verified, and someone else signed up with the
    /// address.
    Disputed,
}

impl Reason {
    /// Whether the session may have been used by another person. Then its pending change of address
    /// ends too.
    fn voids_new_email(self) -> bool {
        matches!(self, Self::Revoked | Self::Reused | Self::Deletion)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Logout => "logout",
            Self::Revoked => "revoked",
            Self::Evicted => "evicted",
            Self::Reused => "reused",
            Self::Suspended => "suspended",
            Self::PasswordChanged => "password_changed",
            Self::Deletion => "deletion",
            Self::EmailRestored => "email_restored",
            Self::Proved => "mailbox_proved",
            Self::Disputed => "signed_up_again",
        }
    }
}

impl Core {
    /// Ends a session: deletes its record, which voids its refresh tokens, and drops it from the
    /// cache. Returns false if it had ended already.
    ///
    /// # Errors
    /// If the store cannot delete it.
    pub(crate) async fn end(
        &self,
        cx: &Cx,
        client: &Client,
        session: &Session,
        reason: Reason,
    ) -> Result<bool> {
        let ended = cx
            .transaction(async |cx| {
                if matches!(reason, Reason::Revoked | Reason::Reused) {
                    self.wait_for_email_change_requests(cx, &session.user_id)
                        .await?;
                }
                match self.sessions.delete(cx, session.handle.clone(), None).await {
                    Ok(()) => {}
                    Err(error) if error.code() == Code::NotFound => return Ok(false),
                    Err(error) => return Err(error),
                }
                if reason.voids_new_email() {
                    self.void_new_email(cx, &session.user_id).await?;
                }
                let happened =
                    |event| AuditEvent::about(event, &session.user_id).session(&session.handle);
                if reason == Reason::Logout {
                    self.audit(
                        cx,
                        client,
                        happened("auth:logout").details(json!({ "amr": session.amr })),
                    )
                    .await?;
                }
                if reason == Reason::Reused {
                    self.audit(cx, client, happened("auth:refresh.reused"))
                        .await?;
                    // A refresh token that is used twice was copied: the owner gets one mail.
                    if let Some(user) = self.users.get(cx, session.user_id.as_str()).await? {
                        self.parts
                            .notice(cx, client, &user, MailKind::RefreshReused)
                            .await?;
                    }
                }
                SessionWatches::of(&self.adapters)
                    .session_ended(cx, &session.user_id, &session.handle)
                    .await?;
                let details = json!({ "reason": reason.name() });
                self.audit(
                    cx,
                    client,
                    happened("auth:session.revoked").details(details),
                )
                .await?;
                Ok(true)
            })
            .await;
        // On errors too, because the session may have ended.
        self.checks.forget(&session.user_id);
        ended
    }

    /// Whether the session with this handle exists, is not over, and has the user's current
    /// `session_epoch`. The epoch changes when all sessions of the user end.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn is_live(
        &self,
        cx: &Cx,
        client: &Client,
        handle: &str,
        user: &str,
    ) -> Result<bool> {
        let session = self
            .sessions
            .get(cx, handle)
            .await?
            .filter(|session| !session.is_over(client.now));
        let (Some(session), Some(user)) = (session, self.users.get(cx, user).await?) else {
            return Ok(false);
        };
        Ok(session.is_of(&user))
    }

    /// Waits, in the caller's transaction, until concurrent requests for a change of the address
    /// are done. Such a request locks the account. Later requests see that the session has ended.
    async fn wait_for_email_change_requests(&self, cx: &Cx, user: &str) -> Result<()> {
        match self.users.get(cx, user).await? {
            Some(user) => self.lock_row(cx, &user).await.map(drop),
            None => Ok(()),
        }
    }

    /// Voids a pending change of address, whose link needs no session.
    ///
    /// # Errors
    /// If the store cannot void it.
    pub(crate) async fn void_new_email(&self, cx: &Cx, user: &str) -> Result<()> {
        self.parts
            .tokens
            .void(cx, user, &[Purpose::VerifyNewEmail])
            .await
    }

    /// Ends all sessions of a user except `kept_session`, the trust in devices, and a pending
    /// change of address. Returns the number of ended sessions.
    ///
    /// # Errors
    /// If the store cannot end them.
    pub(crate) async fn end_all(
        &self,
        client: &Client,
        user: &str,
        kept_session: Option<&str>,
        reason: Reason,
    ) -> Result<i64> {
        let cx = client.cx();
        let mut ended = 0;
        cx.transaction(async |cx| {
            self.wait_for_email_change_requests(cx, user).await?;
            self.devices.distrust(cx, user).await?;
            // The change may have been requested in a session that has ended since.
            self.void_new_email(cx, user).await
        })
        .await?;
        for session in self.sessions_of(&cx, user).await? {
            if kept_session != Some(session.handle.as_str())
                && self.end(&cx, client, &session, reason).await?
            {
                ended += 1;
            }
        }
        Ok(ended)
    }
}
