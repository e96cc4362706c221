//! Links of accounts to providers: stored, listed and removed.

use std::collections::HashMap;

use linchpin::prelude::{Field, ListQuery};
use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::mail::MailKind;
use crate::oauth::Identity;
use crate::oauth::entity::{ProviderLink, ProviderLinkCreate, provider_link};
use crate::onetime::Purpose;

impl Core {
    /// Stores the link of an account to an identity at a provider.
    ///
    /// # Errors
    /// `conflict` if the identity belongs to another account, or if the account already has a link
    /// to this provider.
    pub(crate) async fn store_link(
        &self,
        cx: &Cx,
        client: &Client,
        provider: &str,
        identity: &Identity,
        user: &str,
    ) -> Result<()> {
        let new = ProviderLinkCreate {
            provider: provider.to_owned(),
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            user_id: user.to_owned(),
            created_at: client.now,
        };
        self.links.create(cx, new).await?;
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:oauth.linked", user).details(json!({ "provider": provider })),
        )
        .await
    }

    /// Returns the links of an account.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn links_of(&self, cx: &Cx, user: &str) -> Result<Vec<ProviderLink>> {
        Ok(self
            .links
            .links_of(cx, user.to_owned(), PageArgs::default())
            .await?
            .items)
    }

    /// Returns the ids of the providers of an account.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn providers_of(&self, cx: &Cx, user: &str) -> Result<Vec<String>> {
        if self.oauth.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids: Vec<String> = self
            .links_of(cx, user)
            .await?
            .into_iter()
            .map(|link| link.provider)
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Returns the providers of many accounts, by account id. An account without a provider is left
    /// out.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn providers_of_each(
        &self,
        cx: &Cx,
        users: &[User],
    ) -> Result<HashMap<String, Vec<String>>> {
        let mut found: HashMap<String, Vec<String>> = HashMap::new();
        if self.oauth.is_empty() || users.is_empty() {
            return Ok(found);
        }
        let ids: Vec<String> = users.iter().map(|user| user.id.clone()).collect();
        let of_all = || {
            ListQuery::new()
                .filter(provider_link::user_id.one_of(ids.clone()))
                .limit(u32::MAX)
        };
        let mut page = self.links.list(cx, of_all()).await?;
        loop {
            for link in page.items {
                found.entry(link.user_id).or_default().push(link.provider);
            }
            let Some(cursor) = page.next_cursor else {
                break;
            };
            page = self.links.list(cx, of_all().cursor(cursor)).await?;
        }
        for providers in found.values_mut() {
            providers.sort();
        }
        Ok(found)
    }

    /// Removes all links of a deleted account, and their codes.
    ///
    /// # Errors
    /// If the store cannot remove them.
    pub(crate) async fn remove_links(&self, cx: &Cx, user: &str) -> Result<()> {
        for link in self.links_of(cx, user).await? {
            self.remove_link(cx, &link).await?;
        }
        self.parts
            .tokens
            .void(cx, user, &[Purpose::OauthState, Purpose::OauthCode])
            .await
    }

    /// Removes the links that were added at `since` or later, and pending provider flows, in the
    /// caller's transaction.
    ///
    /// # Errors
    /// If the store cannot remove them.
    pub(crate) async fn remove_links_since(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        since: Timestamp,
    ) -> Result<()> {
        for link in self
            .links_of(cx, &user.id)
            .await?
            .iter()
            .filter(|link| link.created_at >= since)
        {
            self.remove_link(cx, link).await?;
            let name = self.oauth.name_of(&link.provider).unwrap_or(&link.provider);
            self.audit(
                cx,
                client,
                AuditEvent::about("auth:oauth.unlinked", &user.id)
                    .details(json!({ "provider": link.provider })),
            )
            .await?;
            self.parts
                .notice_of(
                    cx,
                    client,
                    user,
                    MailKind::ProviderUnlinked,
                    &[("provider", name)],
                )
                .await?;
        }
        self.parts
            .tokens
            .void(cx, &user.id, &[Purpose::OauthState, Purpose::OauthCode])
            .await
    }

    /// Removes a link. It is no error if another request removed it.
    ///
    /// # Errors
    /// If the store cannot remove it.
    pub(super) async fn remove_link(&self, cx: &Cx, link: &ProviderLink) -> Result<()> {
        match self.links.delete(cx, link.id.as_str(), None).await {
            Err(error) if error.code() == Code::NotFound => Ok(()),
            done => done,
        }
    }
}
