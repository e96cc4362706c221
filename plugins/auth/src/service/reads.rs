//! Reads of accounts, sessions and the audit log from code of the app.

use linchpin::prelude::Page;
use linchpin::{Result, Timestamp};
use serde_json::Value;

use super::{Account, AuthService};
use crate::entities::{Audit, Session};

/// Filter for [`AuthService::accounts`]. The default lists all accounts.
#[derive(Clone, Debug, Default)]
pub struct AccountQuery {
    /// Accounts with this email address, in any spelling.
    pub email: Option<String>,
    /// Only suspended accounts, or only accounts that are not.
    pub suspended: Option<bool>,
    /// Accounts with this role.
    pub role: Option<String>,
    /// Page size: default 25, at most 100.
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// Filter for [`AuthService::audit`]. The default lists all entries.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Entries of this account.
    pub user_id: Option<String>,
    /// Entries of this event, such as `auth:login`.
    pub event: Option<String>,
    /// Entries at this time or later.
    pub from: Option<Timestamp>,
    /// Entries before this time.
    pub to: Option<Timestamp>,
    /// Page size: default 25, at most 100.
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// A session, as code of the app reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The handle of the session. It cannot be used to authenticate.
    pub id: String,
    /// When the session was opened.
    pub created_at: Timestamp,
    /// When the session was last used, with a precision of one minute.
    pub last_active_at: Timestamp,
    /// When the session ends at the latest.
    pub expires_at: Option<Timestamp>,
    /// The address that opened the session.
    pub ip: Option<String>,
    /// The user agent that opened the session.
    pub user_agent: Option<String>,
    /// Authentication methods of the session (RFC 8176).
    pub amr: Vec<String>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The id of the entry.
    pub id: String,
    /// The event, such as `auth:login`.
    pub event: String,
    /// When the event happened.
    pub at: Timestamp,
    /// The account. A deleted account is replaced by a pseudonym.
    pub user_id: Option<String>,
    /// The handle of the session.
    pub session_id: Option<String>,
    /// The tenant of the caller.
    pub tenant_id: Option<String>,
    /// The address of the request.
    pub ip: Option<String>,
    /// The user agent of the request.
    pub user_agent: Option<String>,
    /// The id of the request; empty for a call without one.
    pub request_id: Option<String>,
    /// `ok`, or the error code.
    pub outcome: String,
    /// More data, which depends on the event.
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

/// Converts the records of a page.
fn converted<T, U: From<T>>(page: Page<T>) -> Page<U> {
    Page {
        items: page.items.into_iter().map(U::from).collect(),
        next_cursor: page.next_cursor,
        has_more: page.has_more,
    }
}

impl AuthService {
    /// Lists accounts, newest first.
    ///
    /// # Errors
    /// `validation_failed` if `email` is not an address; `invalid_cursor` if `cursor` is not from
    /// this query.
    pub async fn accounts(&self, query: AccountQuery) -> Result<Page<Account>> {
        self.core
            .find_accounts(&self.client(), query, "email")
            .await
            .map(converted)
    }

    /// Lists the active sessions of an account, newest first.
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
    /// `not_found` if the account has no such active session.
    pub async fn revoke_session(&self, id: &str, session: &str) -> Result<()> {
        self.core
            .revoke_session(&self.client(), id, session, None)
            .await
    }

    /// Lists entries of the audit log, newest first.
    ///
    /// # Errors
    /// `invalid_cursor` if `cursor` is not from this query.
    pub async fn audit(&self, query: AuditQuery) -> Result<Page<AuditEntry>> {
        self.core
            .find_audits(&self.client(), query)
            .await
            .map(converted)
    }
}
