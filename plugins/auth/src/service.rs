//! What the app itself may do with accounts, beside what their owners can.

use std::sync::Arc;

use linchpin::{Result, Timestamp};

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
        self.core.suspend(&self.client(), None, id, reason).await.map(Account::from)
    }

    /// Opens it again. Its former sessions stay ended.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn unsuspend(&self, id: &str) -> Result<Account> {
        self.core.unsuspend(&self.client(), None, id).await.map(Account::from)
    }

    /// Replaces what its owner may do, from the next request on.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for a role that is not in `auth.roles`.
    pub async fn set_roles(&self, id: &str, roles: Vec<String>) -> Result<Account> {
        self.core.set_roles(&self.client(), None, id, roles).await.map(Account::from)
    }

    /// Notes that an email address is known to be its owner's, or that it is not.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_email_verified(&self, id: &str, verified: bool) -> Result<Account> {
        let client = self.client();
        let patch = UserPatch { email_verified_at: Some(verified.then_some(client.now)), ..UserPatch::default() };
        let happened = Happened::to(if verified { "auth:email.verified" } else { "auth:user.updated" }, id);
        self.core.change_account(&client, id, patch, happened, async |_, _| Ok(())).await.map(Account::from)
    }

    /// Ends all sessions of an account; how many.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub async fn revoke_sessions(&self, id: &str) -> Result<i64> {
        self.core.end_all(&self.client(), id, None, Reason::Revoked).await
    }

    /// Lets a session count as one that has just proved who its user is, for tests of what asks for that.
    ///
    /// # Errors
    /// `not_found`.
    #[cfg(feature = "test-util")]
    pub async fn step_up_session(&self, session: &str) -> Result<()> {
        let client = self.client();
        let patch = crate::entities::SessionPatch { step_up_at: Some(Some(client.now)), ..Default::default() };
        let session = self.core.sessions.update(&client.cx(), session, patch, None).await?;
        self.core.checks.forget(&session.user_id);
        Ok(())
    }
}
