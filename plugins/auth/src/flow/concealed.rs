//! What becomes of a sign-up that tells nobody: its request has left it behind, so that no time it
//! takes shows whether there was an account.

use linchpin::{Code, Cx, Error, Result, Timestamp};
use serde_json::json;

use super::{NewAccount, OVERTAKEN, Reason};
use crate::core::{Client, Core, Happened};
use crate::entities::{User, UserPatch};
use crate::hooks::SignUp;
use crate::identity::normalise::Identifier;
use crate::limit::{Bucket, Hit, Taken};
use crate::mail::MailKind;
use crate::mfa::enrolled;
use crate::outbox::Concealed;

impl Core {
    /// Makes the account and mails its owner a link, or tells the owner of the one there is.
    ///
    /// # Errors
    /// When neither can be done now.
    pub(super) async fn take_sign_up(&self, asked: Concealed) -> Result<()> {
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
                    .tell("post_register", cx, sign_up, |hooks, cx, input| {
                        hooks.post_register(cx, input)
                    });
                Ok(())
            }
            Err(error) if error.code() == Code::Conflict => {
                let user = self
                    .owner_of(&client, &identifier.normalised, &password_hash, asked_at)
                    .await?;
                self.tell_owner(&client, &user).await
            }
            Err(error) => Err(error),
        }
    }

    /// The account that there is. While nobody has proved the address, of two passwords neither is
    /// known to be its owner's: whoever signed up first must have no way in that works once the
    /// owner, who has signed up as well, follows the link.
    async fn owner_of(
        &self,
        client: &Client,
        identifier: &str,
        password_hash: &str,
        asked_at: Timestamp,
    ) -> Result<User> {
        let cx = client.cx();
        for _ in 0..OVERTAKEN {
            // Gone meanwhile: the sign-up is done again.
            let found = self
                .users
                .by_identifier(&cx, identifier.to_owned())
                .await?
                .filter(|user| !user.is_gone(client.now));
            let user = found
                .ok_or_else(|| Error::unavailable("the account of an address has just gone"))?;
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
            let taken = cx.transaction(async |cx| {
                let user = self.hold_with_password(cx, &user).await?;
                self.users
                    .update(cx, user.id.as_str(), patch, Some(user.version))
                    .await?;
                for session in self.sessions_of(cx, &user.id).await? {
                    self.end(cx, client, &session, Reason::Disputed).await?;
                }
                // The owner of the mailbox, who never had it, is told that somebody signed up: see
                // `tell_owner`.
                self.dropped_password(cx, client, &user).await?;
                self.drop_unproved(cx, client, &user.id).await?;
                let details = json!({ "method": "signed_up_again" });
                self.audit(
                    cx,
                    client,
                    Happened::to("auth:user.updated", &user.id).details(details),
                )
                .await?;
                // Last: it is a change of the account like any other.
                self.users.new_epoch(cx, user.id.as_str()).await
            });
            match taken.await {
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

    /// Whether somebody else may have made an account than who signed up at an instant. It does not
    /// matter how late that is looked at: an account that was first proved since was unproved then,
    /// unless it was from the start, or its owner has set a password meanwhile.
    async fn is_disputed(
        &self,
        cx: &Cx,
        user: &User,
        password_hash: &str,
        asked_at: Timestamp,
    ) -> Result<bool> {
        let since =
            |at: Timestamp| asked_at <= at && user.created_at < at && user.password_version == 0;
        // Accounts of before proofs were noted have only the date of the last one.
        let proved_at = user.proved_at.or(user.email_verified_at);
        let was_unproved = user.email_verified_at.is_none() || proved_at.is_none_or(since);
        if !was_unproved || user.password_hash.as_deref() == Some(password_hash) {
            return Ok(false);
        }
        Ok(user.password_hash.is_some()
            || !enrolled(user).is_empty()
            || !self.links_of(cx, &user.id).await?.is_empty()
            || !self.sessions_of(cx, &user.id).await?.is_empty())
    }

    /// Mails the owner of an account that somebody tried to sign up with its address, but not any
    /// number of times.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(super) async fn tell_owner(&self, client: &Client, user: &User) -> Result<()> {
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

    /// Counts a mail to an address whose reader may not have asked for it; `None` when it must not
    /// be sent.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(super) async fn may_mail(&self, address: &str) -> Result<Option<Taken>> {
        Ok(self
            .limiter
            .admit(&[Hit {
                bucket: Bucket::StrangerMail,
                of: &[address],
            }])
            .await?
            .ok())
    }

    /// Counts a mail to the address of an account that nobody has proved, caused by whoever uses
    /// the account; `None` when it must not be sent. What leads back to an owner counts apart:
    /// nobody keeps it away by anything else that they do.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(super) async fn may_mail_unproved(
        &self,
        address: &str,
        kind: MailKind,
    ) -> Result<Option<Taken>> {
        let of = [address, kind.name()];
        let hit = if kind.variables().contains(&"link") {
            Hit {
                bucket: Bucket::StrangerMail,
                of: &of,
            }
        } else {
            Hit {
                bucket: Bucket::UnprovedMail,
                of: &of[..1],
            }
        };
        Ok(self.limiter.admit(&[hit]).await?.ok())
    }
}
