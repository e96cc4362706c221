//! What the app itself may do with accounts, beside what their owners can.

use std::sync::Arc;

use linchpin::{Error, Problem, Result, Timestamp};
use serde_json::json;

use crate::core::{Client, Core, Happened};
use crate::entities::{User, UserPatch};
use crate::flow::Reason;

/// Administration of accounts, for code: `adapters.provided::<AuthService>()` once the app is set up.
#[derive(Clone, Debug)]
pub struct AuthService {
    core: Arc<Core>,
}

/// An account as code sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Its id, which is that of the actor.
    pub id: String,
    /// The identifier as typed.
    pub identifier: String,
    /// The email address as typed.
    pub email: Option<String>,
    /// Since when that is known to be its owner's.
    pub email_verified_at: Option<Timestamp>,
    /// What its owner may do.
    pub roles: Vec<String>,
    /// Since when it is suspended.
    pub suspended_at: Option<Timestamp>,
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            identifier: user.identifier_display,
            email: user.email,
            email_verified_at: user.email_verified_at,
            roles: user.roles,
            suspended_at: user.suspended_at,
        }
    }
}

impl AuthService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The app itself as a client.
    fn client(&self) -> Client {
        Client { ip: None, user_agent: None, request_id: String::new(), now: self.core.now() }
    }

    /// An account.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn account(&self, id: &str) -> Result<Option<Account>> {
        Ok(self.core.users.get(&self.client().cx(), id).await?.map(Account::from))
    }

    /// Shuts an account: nobody signs in to it, and all its sessions end.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn suspend(&self, id: &str, reason: Option<String>) -> Result<Account> {
        let client = self.client();
        let patch = UserPatch { suspended_at: Some(Some(client.now)), suspended_reason: Some(reason), ..UserPatch::default() };
        let account = self.change(&client, id, patch, Happened::to("auth:account.suspended", id)).await?;
        self.core.end_all(&client, id, None, Reason::Suspended).await?;
        Ok(account)
    }

    /// Opens it again. Its former sessions stay ended.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn unsuspend(&self, id: &str) -> Result<Account> {
        let patch = UserPatch { suspended_at: Some(None), suspended_reason: Some(None), ..UserPatch::default() };
        self.change(&self.client(), id, patch, Happened::to("auth:account.unsuspended", id)).await
    }

    /// Replaces what its owner may do, from the next request on.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for a role that is not in `auth.roles`.
    pub async fn set_roles(&self, id: &str, roles: Vec<String>) -> Result<Account> {
        let known = &self.core.config.auth.roles;
        if let Some(at) = roles.iter().position(|role| !known.contains(role)) {
            return Err(Error::invalid(Problem::new(format!("roles[{at}]"), "enum", "is no role of this app")));
        }
        let happened = Happened::to("auth:role.changed", id).details(json!({ "roles": roles }));
        self.change(&self.client(), id, UserPatch { roles: Some(roles), ..UserPatch::default() }, happened).await
    }

    /// Notes that an email address is known to be its owner's, or that it is not.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_email_verified(&self, id: &str, verified: bool) -> Result<Account> {
        let client = self.client();
        let patch = UserPatch { email_verified_at: Some(verified.then_some(client.now)), ..UserPatch::default() };
        self.change(&client, id, patch, Happened::to(if verified { "auth:email.verified" } else { "auth:user.updated" }, id)).await
    }

    /// Ends all sessions of an account; how many.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub async fn revoke_sessions(&self, id: &str) -> Result<i64> {
        self.core.end_all(&self.client(), id, None, Reason::Revoked).await
    }

    /// Changes an account and writes down that it was, together; what is remembered of its sessions ends.
    async fn change(&self, client: &Client, id: &str, patch: UserPatch, happened: Happened<'_>) -> Result<Account> {
        let cx = client.cx();
        let changed = cx
            .transaction(async |cx| {
                let user = self.core.users.update(cx, id, patch, None).await?;
                self.core.audit(cx, client, happened).await?;
                Ok(user)
            })
            .await;
        self.core.checks.forget(id);
        changed.map(Account::from)
    }
}
