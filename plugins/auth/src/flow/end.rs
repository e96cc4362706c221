//! The end of sessions.

use linchpin::{Code, Cx, Result};
use serde_json::json;

use crate::core::{Client, Core, Happened};
use crate::entities::Session;
use crate::mail::MailKind;
use crate::onetime::Purpose;

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its user left.
    Logout,
    /// Its user ended it from another one.
    Revoked,
    /// There were too many.
    Evicted,
    /// A refresh token came twice.
    Reused,
    /// Its account was suspended.
    Suspended,
    /// The password was changed.
    PasswordChanged,
    /// Its account is to be deleted, or is.
    Deletion,
    /// The address that the account had before was taken back.
    EmailRestored,
    /// It was begun before anybody had proved the mailbox.
    Proved,
    /// So it was, and somebody else signed up with the address.
    Disputed,
}

impl Reason {
    /// Whether whoever used the session may have been somebody else: what they asked for and what
    /// needs no session any more ends with it.
    fn is_distrust(self) -> bool {
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
    /// Ends a session: its row goes, with its refresh tokens, and nobody here takes it for good any
    /// more. False when it had ended already.
    ///
    /// # Errors
    /// When the store cannot say that it has ended.
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
                    self.wait_for_wishes(cx, &session.user_id).await?;
                }
                match self.sessions.delete(cx, session.handle.clone(), None).await {
                    Ok(()) => {}
                    Err(error) if error.code() == Code::NotFound => return Ok(false),
                    Err(error) => return Err(error),
                }
                if reason.is_distrust() {
                    self.void_new_email(cx, &session.user_id).await?;
                }
                let happened =
                    |event| Happened::to(event, &session.user_id).session(&session.handle);
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
                    // A token that comes twice has been copied: its owner is to know, once.
                    if let Some(user) = self.users.get(cx, session.user_id.as_str()).await? {
                        self.parts
                            .notice(cx, client, &user, MailKind::RefreshReused)
                            .await?;
                    }
                }
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
        // Also when it failed: it may have ended all the same.
        self.checks.forget(&session.user_id);
        ended
    }

    /// Whether a session is still there, by its handle, and all of its user's have not been ended
    /// since it was opened.
    ///
    /// # Errors
    /// When the store cannot tell.
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

    /// Waits until nobody is about to wish for another address of an account, as part of the
    /// caller's transaction: who is, holds it. Whoever comes later finds what has ended.
    async fn wait_for_wishes(&self, cx: &Cx, user: &str) -> Result<()> {
        match self.users.get(cx, user).await? {
            Some(user) => self.hold_row(cx, &user).await.map(drop),
            None => Ok(()),
        }
    }

    /// Ends the wish for another address: its link needs no session.
    ///
    /// # Errors
    /// When the store cannot say that it has ended.
    pub(crate) async fn void_new_email(&self, cx: &Cx, user: &str) -> Result<()> {
        self.parts
            .tokens
            .void(cx, user, &[Purpose::VerifyNewEmail])
            .await
    }

    /// Ends all sessions of a user but one, the trust in their devices, and the wish for another
    /// address, whoever has it; the number of sessions that ended.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub(crate) async fn end_all(
        &self,
        client: &Client,
        user: &str,
        but: Option<&str>,
        reason: Reason,
    ) -> Result<i64> {
        let cx = client.cx();
        let mut ended = 0;
        cx.transaction(async |cx| {
            self.wait_for_wishes(cx, user).await?;
            self.devices.distrust(cx, user).await?;
            // Whoever asked for it may have left by themselves.
            self.void_new_email(cx, user).await
        })
        .await?;
        for session in self.sessions_of(&cx, user).await? {
            if but != Some(session.handle.as_str())
                && self.end(&cx, client, &session, reason).await?
            {
                ended += 1;
            }
        }
        Ok(ended)
    }
}
