//! Concealed sign-ups: a background task processes them, so that the response time does not depend
//! on whether the account exists.

use linchpin::{Code, Cx, Error, Result, Timestamp};
use serde_json::json;

use super::{MAX_ATTEMPTS, NewAccount, Reason};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{User, UserPatch};
use crate::hooks::SignUp;
use crate::identity::normalise::Identifier;
use crate::limit::{Bucket, Hit, Taken};
use crate::mail::MailKind;
use crate::mfa::enrolled;
use crate::outbox::Concealed;

impl Core {
    /// Creates the account and mails its owner a link, or informs the owner of the existing
    /// account.
    ///
    /// # Errors
    /// If neither is possible now. The task is repeated.
    pub(super) async fn process_sign_up(&self, asked: Concealed) -> Result<()> {
        let Concealed {
            normalised,
            display,
            password_hash,
            asked_at,
            from,
        } = asked;
        let client = from.client(self.now());
        let identifier = Identifier {
            normalised,
            display,
        };
        let new = NewAccount::signed_up(
            self,
            identifier.clone(),
            Some(identifier.clone()),
            password_hash.clone(),
        );
        match self.create_account(&client, new).await {
            Ok(user) => {
                let sign_up = SignUp {
                    identifier: identifier.normalised,
                    method: "password",
                    user_id: Some(user.id),
                };
                let cx = self.hook_cx(&client);
                self.hooks
                    .spawn_post("post_register", cx, sign_up, |hooks, cx, input| {
                        hooks.post_register(cx, input)
                    });
                Ok(())
            }
            Err(error) if error.code() == Code::Conflict => {
                let user = self
                    .existing_account(&client, &identifier.normalised, &password_hash, asked_at)
                    .await?;
                self.notify_owner(&client, &user).await
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the existing account. If someone else may have created it, its password, its
    /// sessions and everything that was set up are removed first. Otherwise the other person would
    /// keep a way to sign in after the real owner follows the link.
    async fn existing_account(
        &self,
        client: &Client,
        identifier: &str,
        password_hash: &str,
        asked_at: Timestamp,
    ) -> Result<User> {
        let cx = client.cx();
        for _ in 0..MAX_ATTEMPTS {
            // The account was deleted meanwhile: the task is repeated.
            let found = self
                .users
                .by_identifier(&cx, identifier.to_owned())
                .await?
                .filter(|user| !user.is_gone(client.now));
            let user = found.ok_or_else(|| {
                Error::unavailable("the account of the address was deleted just now")
            })?;
            if !self
                .is_disputed(&cx, &user, password_hash, asked_at)
                .await?
            {
                return Ok(user);
            }
            let patch = UserPatch {
                password_hash: Some(None),
                password_version: Some(user.password_version + 1),
                ..UserPatch::default()
            };
            let dropped = cx.transaction(async |cx| {
                let user = self.lock_with_password(cx, &user).await?;
                self.users
                    .update(cx, user.id.as_str(), patch, Some(user.version))
                    .await?;
                for session in self.sessions_of(cx, &user.id).await? {
                    self.end(cx, client, &session, Reason::Disputed).await?;
                }
                // The owner of the mailbox gets a mail about the second sign-up, from
                // `notify_owner`.
                self.audit_dropped_password(cx, client, &user).await?;
                self.drop_unproved(cx, client, &user.id).await?;
                let details = json!({ "method": "signed_up_again" });
                self.audit(
                    cx,
                    client,
                    AuditEvent::about("auth:user.updated", &user.id).details(details),
                )
                .await?;
                // Last, because it changes the version of the account.
                self.users.new_epoch(cx, user.id.as_str()).await
            });
            match dropped.await {
                Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                }
                done => {
                    self.checks.forget(&user.id);
                    return done;
                }
            }
        }
        Err(Error::unavailable("an account kept changing"))
    }

    /// Whether someone else may have created the account before the sign-up that was requested at
    /// `asked_at`. The result does not depend on when the task runs: an account that was verified
    /// after `asked_at` counts as unverified, unless it was created as verified or its password was
    /// changed.
    async fn is_disputed(
        &self,
        cx: &Cx,
        user: &User,
        password_hash: &str,
        asked_at: Timestamp,
    ) -> Result<bool> {
        let verified_later =
            |at: Timestamp| asked_at <= at && user.created_at < at && user.password_version == 0;
        // Older records only have the date of the last verification.
        let proved_at = user.proved_at.or(user.email_verified_at);
        let was_unproved = user.email_verified_at.is_none() || proved_at.is_none_or(verified_later);
        if !was_unproved || user.password_hash.as_deref() == Some(password_hash) {
            return Ok(false);
        }
        Ok(user.password_hash.is_some()
            || !enrolled(user).is_empty()
            || !self.links_of(cx, &user.id).await?.is_empty()
            || !self.sessions_of(cx, &user.id).await?.is_empty())
    }

    /// Mails the owner of an account that someone tried to sign up with its address. The number of
    /// mails is limited.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(super) async fn notify_owner(&self, client: &Client, user: &User) -> Result<()> {
        if user.suspended_at.is_some() {
            return Ok(());
        }
        let Some(email) = &user.email_normalised else {
            return Ok(());
        };
        if self.may_mail(email).await?.is_none() {
            return Ok(());
        }
        self.parts
            .notice(&client.cx(), client, user, MailKind::ExistingAccount)
            .await
    }

    /// Counts a mail to an address whose owner may not have requested it. Returns `None` if the
    /// limit is exhausted.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(super) async fn may_mail(&self, address: &str) -> Result<Option<Taken>> {
        Ok(self
            .limiter
            .admit(&[Hit {
                bucket: Bucket::StrangerMail,
                key: &[address],
            }])
            .await?
            .ok())
    }

    /// Counts a mail to the unverified address of an account. Returns `None` if the limit is
    /// exhausted. Mails with a link, such as one that undoes a change of the address, are counted
    /// separately for each kind, so that other mails cannot use up their limit.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(super) async fn may_mail_unproved(
        &self,
        address: &str,
        kind: MailKind,
    ) -> Result<Option<Taken>> {
        let limit_key = [address, kind.name()];
        let hit = if kind.variables().contains(&"link") {
            Hit {
                bucket: Bucket::StrangerMail,
                key: &limit_key,
            }
        } else {
            Hit {
                bucket: Bucket::UnprovedMail,
                key: &limit_key[..1],
            }
        };
        Ok(self.limiter.admit(&[hit]).await?.ok())
    }
}
