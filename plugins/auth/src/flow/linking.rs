//! Linking an account to a provider, and unlinking it, at the request of its owner.

use linchpin::{Error, Result};
use serde_json::json;

use super::oauth::LinkFor;
use super::proof::Proof;
use super::ways_in::Without;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::error::{INVALID_STATE, conflict, refuse};
use crate::mail::MailKind;
use crate::oauth::{Identity, Provider};
use crate::onetime::Purpose;

impl Core {
    /// Links an account to an identity at a provider. The sign-in at the provider takes time. So
    /// [`Core::lock_current`] checks the account again, and the session that requested the link
    /// (`asked`) must still exist. The owner gets a mail.
    ///
    /// # Errors
    /// The errors of [`Core::store_link`]; `precondition_failed` if the account changed;
    /// `invalid_state` if the session has ended.
    pub(crate) async fn add_link(
        &self,
        client: &Client,
        provider: &Provider,
        identity: &Identity,
        user: &User,
        asked: Option<&LinkFor>,
    ) -> Result<User> {
        let added = client
            .cx()
            .transaction(async |cx| {
                let linked = self.lock_current(cx, user).await?;
                if let Some(asked) = asked
                    && !self.may_request_link(cx, client, asked).await?
                {
                    return Err(refuse(INVALID_STATE));
                }
                self.store_link(cx, client, &provider.id, identity, &user.id)
                    .await?;
                self.parts
                    .notice_of(
                        cx,
                        client,
                        user,
                        MailKind::ProviderLinked,
                        &[("provider", provider.name.as_str())],
                    )
                    .await?;
                Ok(linked)
            })
            .await;
        self.checks.forget(&user.id);
        added
    }

    /// Removes the link of an account to a provider, unless it is the last way to sign in.
    ///
    /// # Errors
    /// 404 if there is none; 409 `last_credential`; 409 `conflict` if the account changed since it
    /// was read.
    pub(crate) async fn unlink(
        &self,
        client: &Client,
        user: &User,
        provider: &Provider,
        proof: Proof,
    ) -> Result<()> {
        let cx = client.cx();
        let links = self.links_of(&cx, &user.id).await?;
        let link = links
            .iter()
            .find(|link| link.provider == provider.id)
            .ok_or_else(Error::not_found)?;
        self.keeps_a_way_in(&cx, user, Without::Link(link)).await?;
        let unlinked = cx
            .transaction(async |cx| {
                proof.spend(self, cx, client, user).await?;
                // Locks the account: if two ways to sign in are removed at once, one request gets a
                // conflict.
                self.lock_unchanged(cx, user).await.map_err(conflict)?;
                self.remove_link(cx, link).await?;
                self.parts
                    .tokens
                    .void(cx, &user.id, &[Purpose::OauthState, Purpose::OauthCode])
                    .await?;
                self.audit(
                    cx,
                    client,
                    AuditEvent::about("auth:oauth.unlinked", &user.id)
                        .details(json!({ "provider": provider.id })),
                )
                .await?;
                self.parts
                    .notice_of(
                        cx,
                        client,
                        user,
                        MailKind::ProviderUnlinked,
                        &[("provider", provider.name.as_str())],
                    )
                    .await
            })
            .await;
        self.checks.forget(&user.id);
        unlinked
    }
}
