//! What the app may read of accounts, their sessions and their past.

use linchpin::prelude::Page;
use linchpin::{Result, Timestamp};
use serde_json::Value;

use super::{Account, AuthService};
use crate::entities::{Audit, Session};

/// Which accounts to list; those there are, unless it says more.
#[derive(Clone, Debug, Default)]
pub struct AccountQuery {
    /// With this email address, however it is spelt.
    pub email: Option<String>,
    /// Suspended ones alone, or others alone.
    pub suspended: Option<bool>,
    /// That hold this role.
    pub role: Option<String>,
    /// Most of them in a page: 25 unless it is said, and at most 100.
    pub limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Which part of the audit to list; all of it, unless it says more.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// What happened to this account.
    pub user_id: Option<String>,
    /// What is called so: `auth:login`.
    pub event: Option<String>,
    /// Then or later.
    pub from: Option<Timestamp>,
    /// Earlier than then.
    pub to: Option<Timestamp>,
    /// Most entries of a page: 25 unless it is said, and at most 100.
    pub limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A session as code sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// What it is called: knowing that authenticates nobody.
    pub id: String,
    /// Since when it is there.
    pub created_at: Timestamp,
    /// When it was last used, to within a minute.
    pub last_active_at: Timestamp,
    /// When it ends at the latest.
    pub expires_at: Option<Timestamp>,
    /// Where it was opened from.
    pub ip: Option<String>,
    /// What opened it.
    pub user_agent: Option<String>,
    /// How its user proved who they are (RFC 8176).
    pub amr: Vec<String>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its id.
    pub id: String,
    /// `auth:login` and so on.
    pub event: String,
    /// When.
    pub at: Timestamp,
    /// To whom; another name once the account is deleted.
    pub user_id: Option<String>,
    /// In which session.
    pub session_id: Option<String>,
    /// Whoever asked for it acted in this tenant.
    pub tenant_id: Option<String>,
    /// Where the request came from.
    pub ip: Option<String>,
    /// What sent it.
    pub user_agent: Option<String>,
    /// Its id; empty where there was none.
    pub request_id: Option<String>,
    /// `ok`, or the code of the refusal.
    pub outcome: String,
    /// What else there is to say, by the event.
    pub details: Option<Value>,
}

impl From<Session> for SessionInfo {
    fn from(session: Session) -> Self {
        Self {
            id: session.handle,
            created_at: session.created_at,
            last_active_at: session.last_active_at,
            expires_at: session.expires_at,
            ip: session.ip,
            user_agent: session.user_agent,
            amr: session.amr,
        }
    }
}

impl From<Audit> for AuditEntry {
    fn from(row: Audit) -> Self {
        Self {
            id: row.id,
            event: row.event,
            at: row.at,
            user_id: row.user_id,
            session_id: row.session_id,
            tenant_id: row.tenant_id,
            ip: row.ip,
            user_agent: row.user_agent,
            request_id: row.request_id,
            outcome: row.outcome,
            details: row.details,
        }
    }
}

/// A page of something as code sees it.
fn shown<T, U: From<T>>(page: Page<T>) -> Page<U> {
    Page {
        items: page.items.into_iter().map(U::from).collect(),
        next_cursor: page.next_cursor,
        has_more: page.has_more,
    }
}

impl AuthService {
    /// Accounts, the newest first.
    ///
    /// # Errors
    /// `validation_failed` for what is no address; `invalid_cursor`.
    pub async fn accounts(&self, query: AccountQuery) -> Result<Page<Account>> {
        self.core
            .find_accounts(&self.client(), query, "email")
            .await
            .map(shown)
    }

    /// The sessions of an account that may still be used, the newest first.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn sessions(&self, id: &str) -> Result<Vec<SessionInfo>> {
        let mut sessions = self
            .core
            .active_sessions_of(&self.client(), id, None)
            .await?;
        sessions.sort_by_key(|session| std::cmp::Reverse(session.created_at));
        Ok(sessions.into_iter().map(SessionInfo::from).collect())
    }

    /// Ends a session of an account.
    ///
    /// # Errors
    /// `not_found` when there is none that may still be used.
    pub async fn revoke_session(&self, id: &str, session: &str) -> Result<()> {
        self.core
            .revoke_session(&self.client(), id, session, None)
            .await
    }

    /// What has happened, the latest first.
    ///
    /// # Errors
    /// `invalid_cursor`.
    pub async fn audit(&self, query: AuditQuery) -> Result<Page<AuditEntry>> {
        self.core
            .find_audits(&self.client(), query)
            .await
            .map(shown)
    }
}
