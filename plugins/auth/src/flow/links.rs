//! The links of accounts to providers: written down, listed, ended.

use std::collections::HashMap;

use linchpin::prelude::{Field, ListQuery};
use linchpin::{Code, Cx, Error, PageArgs, Result, Timestamp};
use serde_json::json;

use super::oauth::LinkFor;
use super::proof::Proof;
use super::ways_in::Without;
use crate::core::{Client, Core, Happened};
use crate::entities::User;
use crate::error::{INVALID_STATE, overtaken, refuse};
use crate::mail::MailKind;
use crate::oauth::entity::{ProviderLink, ProviderLinkCreate, provider_link};
use crate::oauth::{Identity, Provider};
use crate::onetime::Purpose;

impl Core {
    /// Links an account that is as it was when it was judged, in whose session `asked` that was asked for, if in one: since then, the
    /// provider has been asked who somebody is, which takes its time. Its owner is told.
    ///
    /// # Errors
    /// As [`Core::store_link`]; `precondition_failed` when the account was changed since; `invalid_state` when that session is over.
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
                let linked = self.hold_now(cx, user).await?;
                if let Some(asked) = asked
                    && !self.may_ask(cx, client, asked).await?
                {
                    return Err(refuse(INVALID_STATE));
                }
                self.store_link(cx, client, &provider.id, identity, &user.id).await?;
                self.parts.notice_of(cx, client, user, MailKind::ProviderLinked, &[("provider", provider.name.as_str())]).await?;
                Ok(linked)
            })
            .await;
        self.checks.forget(&user.id);
        added
    }

    /// Writes down that a provider knows the owner of an account.
    ///
    /// # Errors
    /// `conflict` when it knows them as somebody else's, or the account has one of this provider.
    pub(crate) async fn store_link(&self, cx: &Cx, client: &Client, provider: &str, identity: &Identity, user: &str) -> Result<()> {
        let new = ProviderLinkCreate {
            provider: provider.to_owned(),
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            user_id: user.to_owned(),
            created_at: client.now,
        };
        self.links.create(cx, new).await?;
        self.audit(cx, client, Happened::to("auth:oauth.linked", user).details(json!({ "provider": provider }))).await
    }

    /// The links of an account.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn links_of(&self, cx: &Cx, user: &str) -> Result<Vec<ProviderLink>> {
        Ok(self.links.links_of(cx, user.to_owned(), PageArgs::default()).await?.items)
    }

    /// The ids of the providers that the owner of an account signs in with.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn providers_of(&self, cx: &Cx, user: &str) -> Result<Vec<String>> {
        if self.oauth.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids: Vec<String> = self.links_of(cx, user).await?.into_iter().map(|link| link.provider).collect();
        ids.sort();
        Ok(ids)
    }

    /// The same of many accounts at once, by their ids; one that has none is left out.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn providers_of_each(&self, cx: &Cx, users: &[User]) -> Result<HashMap<String, Vec<String>>> {
        let mut found: HashMap<String, Vec<String>> = HashMap::new();
        if self.oauth.is_empty() || users.is_empty() {
            return Ok(found);
        }
        let ids: Vec<String> = users.iter().map(|user| user.id.clone()).collect();
        let of_all = || ListQuery::new().filter(provider_link::user_id.one_of(ids.clone())).limit(u32::MAX);
        let mut page = self.links.list(cx, of_all()).await?;
        loop {
            for link in page.items {
                found.entry(link.user_id).or_default().push(link.provider);
            }
            let Some(cursor) = page.next_cursor else { break };
            page = self.links.list(cx, of_all().cursor(cursor)).await?;
        }
        for providers in found.values_mut() {
            providers.sort();
        }
        Ok(found)
    }

    /// Ends the link of an account to a provider, unless nothing else signs its owner in.
    ///
    /// # Errors
    /// 404 when there is none; 409 `last_credential`; 409 `conflict` when the account was changed since it was read.
    pub(crate) async fn unlink(&self, client: &Client, user: &User, provider: &Provider, proof: Proof) -> Result<()> {
        let cx = client.cx();
        let links = self.links_of(&cx, &user.id).await?;
        let link = links.iter().find(|link| link.provider == provider.id).ok_or_else(Error::not_found)?;
        self.keeps_a_way_in(&cx, user, Without::Link(link)).await?;
        let unlinked = cx
            .transaction(async |cx| {
                proof.spend(self, cx, client, user).await?;
                // Under the account's version: of two ways in that are removed at once, one is looked at again.
                self.hold(cx, user).await.map_err(overtaken)?;
                self.remove_link(cx, link).await?;
                self.parts.tokens.void(cx, &user.id, &[Purpose::OauthState, Purpose::OauthCode]).await?;
                self.audit(cx, client, Happened::to("auth:oauth.unlinked", &user.id).details(json!({ "provider": provider.id }))).await?;
                self.parts.notice_of(cx, client, user, MailKind::ProviderUnlinked, &[("provider", provider.name.as_str())]).await
            })
            .await;
        self.checks.forget(&user.id);
        unlinked
    }

    /// Ends every link of an account that is removed, and what they have been good for.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub(crate) async fn remove_links(&self, cx: &Cx, user: &str) -> Result<()> {
        for link in self.links_of(cx, user).await? {
            self.remove_link(cx, &link).await?;
        }
        self.parts.tokens.void(cx, user, &[Purpose::OauthState, Purpose::OauthCode]).await
    }

    /// Ends the links that an account was given at an instant or after it, and whatever is under way, as part of the caller's transaction.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub(crate) async fn remove_links_since(&self, cx: &Cx, client: &Client, user: &User, since: Timestamp) -> Result<()> {
        for link in self.links_of(cx, &user.id).await?.iter().filter(|link| link.created_at >= since) {
            self.remove_link(cx, link).await?;
            let name = self.oauth.get(&link.provider).map_or(link.provider.as_str(), |connection| connection.provider.name.as_str());
            self.audit(cx, client, Happened::to("auth:oauth.unlinked", &user.id).details(json!({ "provider": link.provider }))).await?;
            self.parts.notice_of(cx, client, user, MailKind::ProviderUnlinked, &[("provider", name)]).await?;
        }
        self.parts.tokens.void(cx, &user.id, &[Purpose::OauthState, Purpose::OauthCode]).await
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
