//! Change of an account's address: the request, the verification of the new mailbox, and the undo
//! by the former mailbox.

use std::time::Duration;

use linchpin::{Code, Cx, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::proof::Proof;
use super::{Reason, To};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{User, UserPatch};
use crate::error::{INVALID_TOKEN, conflict, refuse};
use crate::identity::PrimaryField;
use crate::identity::normalise::Identifier;
use crate::mail::MailKind;
use crate::onetime::{OneTime, Purpose, Terms};

/// Time in which the former address can undo a change, from the change on.
const UNDO_PERIOD: Duration = Duration::from_hours(7 * 24);

/// An address as typed and in normalised form.
#[derive(Serialize, Deserialize)]
struct Address {
    normalised: String,
    display: String,
    /// Whether the address was verified.
    verified: bool,
}

impl Core {
    /// Mails the new address a link that completes the change, and the current address a link that
    /// undoes it. An address of another account gets a notice instead, with the same response. If
    /// the limit of mails to the address is exhausted, nothing is mailed and an earlier link stays
    /// valid.
    ///
    /// # Errors
    /// If it cannot be stored, or if the proof was used meanwhile; 409 if the account changed since
    /// it was read.
    pub(crate) async fn request_email_change(
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
                // A change of the password must not miss a request that begins at the same time.
                self.lock_unchanged(cx, user).await.map_err(conflict)?;
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
                    // A later change does not void these links. Otherwise an attacker who changed
                    // the address could void the owner's link by a second change.
                    let terms = Terms {
                        only_newest: false,
                        ..Terms::link(UNDO_PERIOD + lifetime)
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
                // An address in use causes the same work, including a token that is not mailed. So
                // neither the response time nor the end of an earlier link shows whether the
                // address is in use.
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

    /// Completes a change of address after the new mailbox is verified.
    ///
    /// # Errors
    /// 400 `invalid_token`; 409 if another account has taken the address meanwhile.
    pub(crate) async fn complete_email_change(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
    ) -> Result<()> {
        let new: Address = self.parts.tokens.payload(found)?;
        self.change_address(client, user, found, new).await
    }

    /// Restores the former address. All sessions end, ways to sign in that were added since the
    /// change are removed, and mailed links are void. Older undo links stay valid: they belong to
    /// earlier owners.
    ///
    /// # Errors
    /// The errors of [`Core::complete_email_change`].
    pub(crate) async fn undo_email(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
    ) -> Result<()> {
        let former: Address = self.parts.tokens.payload(found)?;
        self.change_address(client, user, found, former).await
    }

    /// The account that signed up with the address meanwhile and never verified it.
    async fn unverified_holder(&self, cx: &Cx, user: &User, address: &str) -> Result<Option<User>> {
        let holder = self.users.by_email(cx, address.to_owned()).await?;
        Ok(holder.filter(|holder| holder.id != user.id && holder.email_verified_at.is_none()))
    }

    /// Takes an address from an account that never verified it. If the address is its identifier,
    /// the account is deleted; until then, its identifier is its id.
    async fn take_address_from(&self, cx: &Cx, client: &Client, holder: &User) -> Result<()> {
        let holder = &self.lock_current(cx, holder).await.map_err(conflict)?;
        let is_identifier = self.config.auth.primary_field == PrimaryField::Email;
        let patch = UserPatch {
            identifier: is_identifier.then(|| holder.id.clone()),
            identifier_display: is_identifier.then(|| holder.id.clone()),
            email: Some(None),
            email_normalised: Some(None),
            deletion_due_at: is_identifier.then_some(Some(client.now)),
            ..UserPatch::default()
        };
        self.users
            .update(cx, holder.id.as_str(), patch, Some(holder.version))
            .await
            .map_err(conflict)?;
        let details = json!({ "method": "address_restored" });
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:user.updated", &holder.id).details(details),
        )
        .await?;
        if is_identifier {
            // The removal of the account reads the client of this request from the entry.
            let details = json!({ "scheduledFor": client.now });
            self.audit(
                cx,
                client,
                AuditEvent::about("auth:account.deletion.scheduled", &holder.id).details(details),
            )
            .await?;
        }
        Ok(())
    }

    async fn change_address(
        &self,
        client: &Client,
        user: &User,
        found: &OneTime,
        to: Address,
    ) -> Result<()> {
        let is_undo = found.purpose == Purpose::UndoEmail;
        let has_address = user.email_normalised.as_ref() == Some(&to.normalised);
        let mut unverified_holder = None;
        if !has_address {
            let identifier = Identifier {
                normalised: to.normalised.clone(),
                display: to.display.clone(),
            };
            self.delete_due_accounts(client, &identifier, Some(&identifier))
                .await?;
            // If the former owner did not verify the address either, the other account keeps it.
            if is_undo && to.verified {
                unverified_holder = self
                    .unverified_holder(&client.cx(), user, &to.normalised)
                    .await?;
            }
        }
        let changed = client
            .cx()
            .transaction(async |cx| {
                if !self.parts.tokens.take(cx, found).await? {
                    return Err(refuse(INVALID_TOKEN));
                }
                let user = &self.lock_current(cx, user).await.map_err(conflict)?;
                self.parts
                    .tokens
                    .void(cx, &user.id, &[Purpose::VerifyNewEmail])
                    .await?;
                if is_undo {
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
                if !is_undo {
                    self.void_undo_links(cx, user, &to).await?;
                }
                if let Some(unverified_holder) = &unverified_holder {
                    self.take_address_from(cx, client, unverified_holder)
                        .await?;
                }
                if !has_address {
                    self.set_email(cx, client, user, to).await?;
                }
                // These come last, because they change the version of the account, which
                // `set_email` checks.
                if is_undo {
                    if !has_address {
                        // `user` still has the replaced address, so this notice goes to the owner
                        // of that address.
                        self.parts
                            .notice(cx, client, user, MailKind::EmailRestored)
                            .await?;
                    }
                    self.drop_since(cx, client, &user.id, found.created_at)
                        .await?;
                    // An account with a scheduled deletion cannot request a change of address. So
                    // the deletion was requested after this change, and was mailed to the other
                    // address.
                    let back = self
                        .users
                        .get(cx, user.id.as_str())
                        .await?
                        .ok_or_else(Error::not_found)?;
                    if back.deletion_due_at.is_some() {
                        self.cancel_deletion_in(cx, client, &back).await?;
                    }
                    self.users.new_epoch(cx, user.id.as_str()).await?;
                }
                Ok(())
            })
            .await;
        self.checks.forget(&user.id);
        if let Some(unverified_holder) = &unverified_holder {
            self.checks.forget(&unverified_holder.id);
        }
        changed.map_err(|error| match error.code() {
            Code::Conflict if !error.details().is_empty() => Error::unique(["email"]),
            _ => error,
        })
    }

    /// Voids undo links that were mailed since the account last had this address. Their holders
    /// could otherwise remove what the owner set up since. Older links stay valid, so that two
    /// changes of the address do not void the link of an earlier owner.
    async fn void_undo_links(&self, cx: &Cx, user: &User, to: &Address) -> Result<()> {
        let tokens = &self.parts.tokens;
        let mut creation_times = Vec::new();
        for given in tokens
            .unused_tokens(cx, Purpose::UndoEmail, &user.id)
            .await?
        {
            // A payload that was changed in the store by another program is skipped.
            let Ok(former) = tokens.payload::<Address>(&given) else {
                continue;
            };
            if former.normalised == to.normalised
                && given.expires_at.is_some_and(|end| cx.now() < end)
            {
                creation_times.push(given.created_at);
            }
        }
        match creation_times.into_iter().min() {
            Some(since) => {
                tokens
                    .void_since(cx, &user.id, Purpose::UndoEmail, since)
                    .await
            }
            None => Ok(()),
        }
    }

    async fn set_email(&self, cx: &Cx, client: &Client, user: &User, to: Address) -> Result<()> {
        let is_identifier = self.config.auth.primary_field == PrimaryField::Email;
        let proof = if to.verified {
            user.proved(client.now)
        } else {
            User::unproved()
        };
        let patch = UserPatch {
            identifier: is_identifier.then(|| to.normalised.clone()),
            identifier_display: is_identifier.then(|| to.display.clone()),
            email: Some(Some(to.display)),
            email_normalised: Some(Some(to.normalised)),
            ..proof
        };
        self.users
            .update(cx, user.id.as_str(), patch, Some(user.version))
            .await
            .map_err(conflict)?;
        // Links that were sent to the other mailbox.
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
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:email.changed", &user.id),
        )
        .await
    }
}
