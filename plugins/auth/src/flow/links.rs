//! The links of accounts to providers: stored, listed, removed with what they belong to.

use std::collections::HashMap;

use linchpin::prelude::{Field, ListQuery};
use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use serde_json::json;

use crate::core::{Client, Core, Happened};
use crate::entities::User;
use crate::mail::MailKind;
use crate::oauth::Identity;
use crate::oauth::entity::{ProviderLink, ProviderLinkCreate, provider_link};
use crate::onetime::Purpose;

impl Core {
    /// Writes down that a provider knows the owner of an account.
    ///
    /// # Errors
    /// `conflict` when it knows them as somebody else's, or the account has one of this provider.
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
            Happened::to("auth:oauth.linked", user).details(json!({ "provider": provider })),
        )
        .await
    }

    /// The links of an account.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn links_of(&self, cx: &Cx, user: &str) -> Result<Vec<ProviderLink>> {
        Ok(self
            .links
            .links_of(cx, user.to_owned(), PageArgs::default())
            .await?
            .items)
    }

    /// The ids of the providers that the owner of an account signs in with.
    ///
    /// # Errors
    /// When the store cannot answer.
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

    /// The same of many accounts at once, by their ids; one that has none is left out.
    ///
    /// # Errors
    /// When the store cannot answer.
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

    /// Ends every link of an account that is removed, and what they have been good for.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub(crate) async fn remove_links(&self, cx: &Cx, user: &str) -> Result<()> {
        for link in self.links_of(cx, user).await? {
            self.remove_link(cx, &link).await?;
        }
        self.parts
            .tokens
            .void(cx, user, &[Purpose::OauthState, Purpose::OauthCode])
            .await
    }

    /// Ends the links that an account was given at an instant or after it, and whatever is under
    /// way, as part of the caller's transaction.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
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
                Happened::to("auth:oauth.unlinked", &user.id)
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

    /// Ends a link, whoever else has.
    ///
    /// # Errors
    /// When the store cannot say that it has ended.
    pub(super) async fn remove_link(&self, cx: &Cx, link: &ProviderLink) -> Result<()> {
        match self.links.delete(cx, link.id.as_str(), None).await {
            Err(error) if error.code() == Code::NotFound => Ok(()),
            done => done,
        }
    }
}
