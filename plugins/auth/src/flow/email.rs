//! Another address for an account: asked for, effective once its mailbox is proved, and taken back
//! by the former one.

use std::time::Duration;

use linchpin::{Code, Cx, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::proof::Proof;
use super::{Reason, To};
use crate::core::{Client, Core, Happened};
use crate::entities::{User, UserPatch};
use crate::error::{INVALID_TOKEN, overtaken, refuse};
use crate::identity::PrimaryField;
use crate::identity::normalise::Identifier;
use crate::mail::MailKind;
use crate::onetime::{OneTime, Purpose, Terms};

/// How long the former address can take a change back, from when it is effective at the latest.
const UNDO: Duration = Duration::from_hours(7 * 24);

/// An address in both its forms.
#[derive(Serialize, Deserialize)]
struct Address {
    normalised: String,
    display: String,
    /// Whether it was proved to be the owner's.
    verified: bool,
}

impl Core {
    /// Mails the new address a link that makes it the account's, and the present one a link that
    /// takes that back. An address in use gets a notice in place of the link; who asked is told the
    /// same. After too many mails to that address, whoever caused them, nothing is mailed, and a
    /// link of before stays good.
    ///
    /// # Errors
    /// When it cannot be kept, or the proof was used meanwhile; 409 when the account was changed
    /// since it was read.
    pub(crate) async fn ask_for_email(
        &self,
        client: &Client,
        user: &User,
        new: Identifier,
        proof: Proof,
    ) -> Result<()> {
        let holder = self
            .users
            .by_email(&client.cx(), new.normalised.as_str())
            .await?
            .filter(|holder| !holder.is_gone(client.now));
        let verification = &self.config.auth.email_verification;
        let (page, lifetime) = (
            verification.link_base_url.as_deref(),
            Duration::from_secs(verification.token_seconds),
        );
        let may_mail = self.may_mail(&new.normalised).await?.is_some();
        client
            .cx()
            .transaction(async |cx| {
                proof.spend(self, cx, client, user).await?;
                // What a new password ends, nobody begins beside it who knew the former one.
                self.hold(cx, user).await.map_err(overtaken)?;
                if !may_mail {
                    return Ok(());
                }
                if let (Some(email), Some(normalised)) = (&user.email, &user.email_normalised) {
                    let verified = user.email_verified_at.is_some();
                    let former = Address {
                        normalised: normalised.clone(),
                        display: email.clone(),
                        verified,
                    };
                    // A later change voids none of them: whoever changed the address once must not
                    // get rid of its owner by a second.
                    let terms = Terms {
                        only_newest: false,
                        ..Terms::link(UNDO + lifetime)
                    };
                    let token = self
                        .parts
                        .tokens
                        .issue(cx, Purpose::UndoEmail, &user.id, &former, terms)
                        .await?;
                    self.parts
                        .link_at(
                            cx,
                            To::at(user, email),
                            MailKind::EmailChanged,
                            page,
                            &token,
                            terms.lifetime,
                            Some(client.now),
                        )
                        .await?;
                }
                // The same is done for an address in use, down to the token, which nobody is told:
                // neither how long it takes nor what becomes of a link of before says that it is.
                let new = Address {
                    normalised: new.normalised.clone(),
                    display: new.display.clone(),
                    verified: true,
                };
                let token = self
                    .parts
                    .tokens
                    .issue(
                        cx,
                        Purpose::VerifyNewEmail,
                        &user.id,
                        &new,
                        Terms::link(lifetime),
                    )
                    .await?;
                match &holder {
                    Some(holder) => {
                        self.parts
                            .notice(cx, client, holder, MailKind::ExistingAccount)
                            .await
                    }
                    None => {
                        self.parts
                            .link(
                                cx,
                                To::at(user, &new.display),
                                MailKind::VerifyNewEmail,
                                page,
                                &token,
                                lifetime,
                            )
                            .await
                    }
                }
            })
            .await
    }

    /// Makes a new address the account's: its mailbox is proved.
    ///
    /// # Errors
    /// 400 `invalid_token`; 409 when the address has been taken meanwhile.
    pub(crate) async fn take_new_email(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
    ) -> Result<()> {
        let new: Address = self.parts.tokens.payload(found)?;
        self.move_to(client, user, found, new).await
    }

    /// Gives an account its former address back. Whoever had changed it is signed out, what they
    /// added to sign in with goes, and nothing they were mailed works any more. Ways back that are
    /// older stay: they are those of owners before.
    ///
    /// # Errors
    /// As [`Core::take_new_email`].
    pub(crate) async fn undo_email(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
    ) -> Result<()> {
        let former: Address = self.parts.tokens.payload(found)?;
        self.move_to(client, user, found, former).await
    }

    /// Who signed up with an address meanwhile and never proved that they read its mail.
    async fn squatter(&self, cx: &Cx, user: &User, address: &str) -> Result<Option<User>> {
        let holder = self.users.by_email(cx, address.to_owned()).await?;
        Ok(holder.filter(|holder| holder.id != user.id && holder.email_verified_at.is_none()))
    }

    /// Takes an address from a squatter: its owner has just shown that they read its mail. An
    /// account that is known by it is as good as deleted, and called by its id until it is removed.
    async fn displace(&self, cx: &Cx, client: &Client, holder: &User) -> Result<()> {
        let holder = &self.hold_now(cx, holder).await.map_err(overtaken)?;
        let known_by_it = self.config.auth.primary_field == PrimaryField::Email;
        let patch = UserPatch {
            identifier: known_by_it.then(|| holder.id.clone()),
            identifier_display: known_by_it.then(|| holder.id.clone()),
            email: Some(None),
            email_normalised: Some(None),
            deletion_due_at: known_by_it.then_some(Some(client.now)),
            ..UserPatch::default()
        };
        self.users
            .update(cx, holder.id.as_str(), patch, Some(holder.version))
            .await
            .map_err(overtaken)?;
        let details = json!({ "method": "address_restored" });
        self.audit(
            cx,
            client,
            Happened::to("auth:user.updated", &holder.id).details(details),
        )
        .await?;
        if known_by_it {
            // Whoever removes the account learns from it which request that was.
            let details = json!({ "scheduledFor": client.now });
            self.audit(
                cx,
                client,
                Happened::to("auth:account.deletion.scheduled", &holder.id).details(details),
            )
            .await?;
        }
        Ok(())
    }

    async fn move_to(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
        to: Address,
    ) -> Result<()> {
        let undone = found.purpose == Purpose::UndoEmail;
        let stays = user.email_normalised.as_ref() == Some(&to.normalised);
        let mut squatter = None;
        if !stays {
            let identifier = Identifier {
                normalised: to.normalised.clone(),
                display: to.display.clone(),
            };
            self.make_room(client, &identifier, Some(&identifier))
                .await?;
            // Who never proved the address either has no better claim to it than they have.
            if undone && to.verified {
                squatter = self.squatter(&client.cx(), user, &to.normalised).await?;
            }
        }
        let moved = client
            .cx()
            .transaction(async |cx| {
                if !self.parts.tokens.take(cx, found).await? {
                    return Err(refuse(INVALID_TOKEN));
                }
                let user = &self.hold_now(cx, user).await.map_err(overtaken)?;
                self.parts
                    .tokens
                    .void(cx, &user.id, &[Purpose::VerifyNewEmail])
                    .await?;
                if undone {
                    self.parts
                        .tokens
                        .void(cx, &user.id, &[Purpose::Reauth])
                        .await?;
                    self.parts
                        .tokens
                        .void_since(cx, &user.id, Purpose::UndoEmail, found.created_at)
                        .await?;
                    for session in self.sessions_of(cx, &user.id).await? {
                        self.end(cx, client, &session, Reason::EmailRestored)
                            .await?;
                    }
                }
                if !undone {
                    self.void_ways_back(cx, user, &to).await?;
                }
                if let Some(squatter) = &squatter {
                    self.displace(cx, client, squatter).await?;
                }
                if !stays {
                    self.set_email(cx, client, user, to).await?;
                }
                // Last: they are changes of the account like any other.
                if undone {
                    if !stays {
                        // To the address that the account had: its reader may be who is to know.
                        self.parts
                            .notice(cx, client, user, MailKind::EmailRestored)
                            .await?;
                    }
                    self.drop_since(cx, client, &user.id, found.created_at)
                        .await?;
                    // Whoever is to be deleted cannot ask for another address: this was asked for
                    // since, and told to the other one.
                    let back = self
                        .users
                        .get(cx, user.id.as_str())
                        .await?
                        .ok_or_else(Error::not_found)?;
                    if back.deletion_due_at.is_some() {
                        self.call_off(cx, client, &back).await?;
                    }
                    self.users.new_epoch(cx, user.id.as_str()).await?;
                }
                Ok(())
            })
            .await;
        self.checks.forget(&user.id);
        if let Some(squatter) = &squatter {
            self.checks.forget(&squatter.id);
        }
        moved.map_err(|error| match error.code() {
            Code::Conflict if !error.details().is_empty() => Error::unique(["email"]),
            _ => error,
        })
    }

    /// Ends the ways back that were mailed since an account left an address that it is at again:
    /// whoever had it moved away has one, and it would take with it what the owner has set up
    /// since. Those of before stay, so that nobody is rid of an owner by moving to and fro.
    async fn void_ways_back(&self, cx: &Cx, user: &User, to: &Address) -> Result<()> {
        let tokens = &self.parts.tokens;
        let mut left = Vec::new();
        for given in tokens.given(cx, Purpose::UndoEmail, &user.id).await? {
            // One that was changed outside leads nowhere.
            let Ok(former) = tokens.payload::<Address>(&given) else {
                continue;
            };
            if former.normalised == to.normalised
                && given.expires_at.is_some_and(|end| cx.now() < end)
            {
                left.push(given.created_at);
            }
        }
        match left.into_iter().min() {
            Some(since) => {
                tokens
                    .void_since(cx, &user.id, Purpose::UndoEmail, since)
                    .await
            }
            None => Ok(()),
        }
    }

    async fn set_email(&self, cx: &Cx, client: &Client, user: &User, to: Address) -> Result<()> {
        let identifies = self.config.auth.primary_field == PrimaryField::Email;
        let proof = if to.verified {
            user.proved(client.now)
        } else {
            User::unproved()
        };
        let patch = UserPatch {
            identifier: identifies.then(|| to.normalised.clone()),
            identifier_display: identifies.then(|| to.display.clone()),
            email: Some(Some(to.display)),
            email_normalised: Some(Some(to.normalised)),
            ..proof
        };
        self.users
            .update(cx, user.id.as_str(), patch, Some(user.version))
            .await
            .map_err(overtaken)?;
        // What went to the other mailbox is of no use to who has it.
        let mailed = [
            Purpose::ResetPassword,
            Purpose::VerifyEmail,
            Purpose::VerifyAndLogin,
            Purpose::MagicLink,
            Purpose::Login,
            Purpose::Reauth,
            Purpose::EmailOtpSetup,
        ];
        self.parts.tokens.void(cx, &user.id, &mailed).await?;
        self.audit(cx, client, Happened::to("auth:email.changed", &user.id))
            .await
    }
}
