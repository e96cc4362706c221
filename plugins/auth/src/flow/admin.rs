//! Administration of accounts, for the admin routes and for `AuthService`.

use linchpin::entity::FieldType;
use linchpin::filter::{Filter, Op, Operand as RightSide, Source};
use linchpin::prelude::{Entity, Field, ListQuery, Page};
use linchpin::{Code, Cx, Error, Problem, Result};
use serde_json::{Value, json};

use super::{MAX_ATTEMPTS, Reason};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{Audit, User, UserPatch, audit, user};
use crate::error::conflict;
use crate::identity::normalise;
use crate::mail::MailKind;
use crate::onetime::Purpose;
use crate::service::{AccountQuery, AuditQuery};

impl Core {
    /// Suspends an account: it cannot sign in, its sessions end, and its mailed links and
    /// challenges no longer work. Suspending a suspended account only updates the reason. `by` is
    /// the id of the administrator. Calls from code have none and may suspend the last
    /// administrator.
    ///
    /// # Errors
    /// `not_found`; `conflict` if this would suspend the last administrator.
    pub(crate) async fn suspend(
        &self,
        client: &Client,
        by: Option<&str>,
        id: &str,
        reason: Option<String>,
    ) -> Result<User> {
        let user = self
            .users
            .get(&client.cx(), id)
            .await?
            .ok_or_else(Error::not_found)?;
        if user.suspended_at.is_some() {
            if reason.is_none() || reason == user.suspended_reason {
                return Ok(user);
            }
            let patch = UserPatch {
                suspended_reason: Some(reason),
                ..UserPatch::default()
            };
            let happened = AuditEvent::about("auth:user.updated", id)
                .details(json!({ "method": "suspension", "by": by }));
            return self
                .change_account(client, id, (patch, None), happened, async |_, _| Ok(()))
                .await;
        }
        let patch = UserPatch {
            suspended_at: Some(Some(client.now)),
            suspended_reason: Some(reason),
            ..UserPatch::default()
        };
        let happened = AuditEvent::about("auth:account.suspended", id).details(json!({ "by": by }));
        self.change_account(client, id, (patch, None), happened, async |cx, user| {
            // Links for sign-in and results of providers stay valid for now, because their response
            // says that the account is suspended. Lifting the suspension voids them.
            let signs_in = |purpose: Purpose| {
                matches!(
                    purpose,
                    Purpose::MagicLink | Purpose::VerifyAndLogin | Purpose::OauthCode
                )
            };
            let at_once: Vec<Purpose> = Purpose::ALL
                .iter()
                .copied()
                .filter(|purpose| !signs_in(*purpose))
                .collect();
            self.parts.tokens.void(cx, id, &at_once).await?;
            self.users.new_epoch(cx, id).await?;
            self.end_sessions(cx, client, id).await?;
            self.devices.distrust(cx, id).await?;
            self.parts
                .notice(cx, client, user, MailKind::AccountSuspended)
                .await?;
            if by.is_some() {
                self.check_other_administrator(cx, user).await
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Lifts a suspension. Sessions and links that ended stay ended. An account that is not
    /// suspended is not changed.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn unsuspend(
        &self,
        client: &Client,
        by: Option<&str>,
        id: &str,
    ) -> Result<User> {
        let user = self
            .users
            .get(&client.cx(), id)
            .await?
            .ok_or_else(Error::not_found)?;
        if user.suspended_at.is_none() {
            return Ok(user);
        }
        let patch = UserPatch {
            suspended_at: Some(None),
            suspended_reason: Some(None),
            ..UserPatch::default()
        };
        let happened =
            AuditEvent::about("auth:account.unsuspended", id).details(json!({ "by": by }));
        self.change_account(client, id, (patch, None), happened, async |cx, _| {
            self.parts.tokens.void(cx, id, Purpose::ALL).await
        })
        .await
    }

    /// Replaces the roles of an account. The next request uses the new ones.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for an unknown or repeated role; `conflict` if this would
    /// remove the last administrator.
    pub(crate) async fn set_roles(
        &self,
        client: &Client,
        by: Option<&str>,
        id: &str,
        roles: Vec<String>,
    ) -> Result<User> {
        self.check_roles(&roles)?;
        let role = self
            .config
            .auth
            .admin_role
            .as_deref()
            .filter(|role| by.is_some() && !roles.iter().any(|kept| kept == role));
        let before = self
            .users
            .get(&client.cx(), id)
            .await?
            .ok_or_else(Error::not_found)?;
        let lost_role = role
            .filter(|role| before.roles.iter().any(|had| had == role))
            .map(str::to_owned);
        let happened =
            AuditEvent::about("auth:role.changed", id).details(json!({ "by": by, "roles": roles }));
        let patch = UserPatch {
            roles: Some(roles),
            ..UserPatch::default()
        };
        self.change_account(
            client,
            id,
            (patch, None),
            happened,
            async |cx, _| match lost_role {
                Some(role) => self.check_other_active_administrator(cx, role).await,
                None => Ok(()),
            },
        )
        .await
    }

    /// Checks, in the transaction that suspends or deletes an account, that another administrator
    /// remains.
    ///
    /// # Errors
    /// `conflict`.
    pub(super) async fn check_other_administrator(&self, cx: &Cx, gone: &User) -> Result<()> {
        match self
            .config
            .auth
            .admin_role
            .as_ref()
            .filter(|role| gone.roles.contains(role))
        {
            Some(role) => {
                self.check_other_active_administrator(cx, role.clone())
                    .await
            }
            None => Ok(()),
        }
    }

    /// Checks, in the transaction that removes the administrator role, that another account with
    /// this role can sign in. It locks that account: if two administrators remove each other's
    /// role, one of them gets a conflict.
    async fn check_other_active_administrator(&self, cx: &Cx, role: String) -> Result<()> {
        let mut cursor = None;
        loop {
            let page = self
                .users
                .list(
                    cx,
                    paged(None, cursor).filter(contains_element(user::roles, role.clone())),
                )
                .await?;
            let stays = |user: &&User| {
                user.suspended_at.is_none()
                    && user.deletion_due_at.is_none()
                    && !self.must_verify(user)
            };
            if let Some(other) = page.items.iter().find(stays) {
                return self
                    .lock_unchanged(cx, other)
                    .await
                    .map(drop)
                    .map_err(conflict);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "This is the last account with the role `{role}`: give it to another first"
                    ),
                ));
            }
        }
    }

    /// Checks the roles of an account.
    ///
    /// # Errors
    /// `validation_failed` for an unknown or repeated role.
    pub(crate) fn check_roles(&self, roles: &[String]) -> Result<()> {
        let mut problems = Vec::new();
        for (at, role) in roles.iter().enumerate() {
            if !self.config.auth.roles.contains(role) {
                problems.push(Problem::new(
                    format!("roles[{at}]"),
                    "enum",
                    "is not a role of this app",
                ));
            } else if roles[..at].contains(role) {
                problems.push(Problem::new(
                    format!("roles[{at}]"),
                    "duplicate",
                    "must be given once",
                ));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Marks the email address as verified or not verified.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn set_email_verified(
        &self,
        client: &Client,
        id: &str,
        verified: bool,
    ) -> Result<User> {
        for _ in 0..MAX_ATTEMPTS {
            let user = self
                .users
                .get(&client.cx(), id)
                .await?
                .ok_or_else(Error::not_found)?;
            let patch = if verified {
                user.proved(client.now)
            } else {
                User::unproved()
            };
            let happened = if verified {
                AuditEvent::about("auth:email.verified", id)
            } else {
                AuditEvent::about("auth:user.updated", id)
                    .details(json!({ "method": "email_unverified" }))
            };
            match self
                .change_account(
                    client,
                    id,
                    (patch, Some(user.version)),
                    happened,
                    async |_, _| Ok(()),
                )
                .await
            {
                // `proved_at` is written once, so the record must be unchanged since it was read.
                Err(error) if error.code() == Code::PreconditionFailed => {}
                done => return done,
            }
        }
        Err(Error::unavailable("an account kept changing"))
    }

    /// Changes an account and writes an audit log entry in one transaction, which also runs `then`.
    /// If `expected_version` is set, the account must still have this version. Drops the cached
    /// sessions of the account.
    ///
    /// # Errors
    /// `not_found`; `precondition_failed` if the account changed since it was read.
    pub(crate) async fn change_account(
        &self,
        client: &Client,
        id: &str,
        (patch, expected_version): (UserPatch, Option<i64>),
        happened: AuditEvent<'_>,
        then: impl AsyncFnOnce(&Cx, &User) -> Result<()>,
    ) -> Result<User> {
        let changed = client
            .cx()
            .transaction(async |cx| {
                let user = self.users.update(cx, id, patch, expected_version).await?;
                self.audit(cx, client, happened).await?;
                then(cx, &user).await?;
                Ok(user)
            })
            .await;
        self.checks.forget(id);
        changed
    }

    /// Lists accounts, newest first. `at` is the name of the `email` parameter in errors.
    ///
    /// # Errors
    /// `validation_failed` if `email` is not an email address; `invalid_cursor`.
    pub(crate) async fn find_accounts(
        &self,
        client: &Client,
        query: AccountQuery,
        at: &str,
    ) -> Result<Page<User>> {
        let AccountQuery {
            email,
            suspended,
            role,
            limit,
            cursor,
        } = query;
        let mut query = paged(limit, cursor);
        if let Some(email) = email {
            let email = normalise::email(&email).map_err(|what| Error::invalid(what.at(at)))?;
            query = query.filter(user::email_normalised.eq(Some(email.normalised)));
        }
        match suspended {
            Some(true) => query = query.filter(user::suspended_at.ne(None)),
            Some(false) => query = query.filter(user::suspended_at.eq(None)),
            None => {}
        }
        if let Some(role) = role {
            query = query.filter(contains_element(user::roles, role));
        }
        self.users.list(&client.cx(), query).await
    }

    /// Lists entries of the audit log, newest first.
    ///
    /// # Errors
    /// `invalid_cursor`.
    pub(crate) async fn find_audits(
        &self,
        client: &Client,
        query: AuditQuery,
    ) -> Result<Page<Audit>> {
        let AuditQuery {
            user_id,
            event,
            from,
            to,
            limit,
            cursor,
        } = query;
        let mut query = paged(limit, cursor);
        if let Some(user) = user_id {
            query = query.filter(audit::user_id.eq(Some(user)));
        }
        if let Some(event) = event {
            query = query.filter(audit::event.eq(event));
        }
        if let Some(from) = from {
            query = query.filter(audit::at.gte(from));
        }
        if let Some(to) = to {
            query = query.filter(audit::at.lt(to));
        }
        self.audits.list(&client.cx(), query).await
    }

    /// Ends a session of an account. `caller_session` is the session of the request.
    ///
    /// # Errors
    /// `not_found` if the account has no such active session.
    pub(crate) async fn revoke_session(
        &self,
        client: &Client,
        user: &str,
        handle: &str,
        caller_session: Option<&str>,
    ) -> Result<()> {
        let session = self
            .active_session(client, user, handle, caller_session)
            .await?;
        if self
            .end(&client.cx(), client, &session, Reason::Revoked)
            .await?
        {
            Ok(())
        } else {
            Err(Error::not_found())
        }
    }

    /// Replaces the app's own data of an account.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn set_app_metadata(
        &self,
        client: &Client,
        id: &str,
        metadata: Option<Value>,
    ) -> Result<User> {
        let patch = UserPatch {
            app_metadata: Some(metadata),
            ..UserPatch::default()
        };
        let happened =
            AuditEvent::about("auth:user.updated", id).details(json!({ "method": "app_metadata" }));
        self.change_account(client, id, (patch, None), happened, async |_, _| Ok(()))
            .await
    }

    async fn end_sessions(&self, cx: &Cx, client: &Client, id: &str) -> Result<()> {
        for session in self.sessions_of(cx, id).await? {
            self.end(cx, client, &session, Reason::Suspended).await?;
        }
        Ok(())
    }
}

/// The paging of a list query.
fn paged<E: Entity>(limit: Option<u32>, cursor: Option<String>) -> ListQuery<E> {
    let mut query = ListQuery::new();
    if let Some(limit) = limit {
        query = query.limit(limit);
    }
    if let Some(cursor) = cursor {
        query = query.cursor(cursor);
    }
    query
}

/// A filter for lists that contain an element.
fn contains_element<F: Field<Ty = Vec<String>>>(_field: F, element: String) -> Filter {
    Filter::cond(
        F::INDEX,
        Op::Has,
        RightSide::One(Source::Value(element.into_value())),
    )
}

/// The error for administrators who act on their own account.
pub(crate) fn own_account_error() -> Error {
    Error::new(Code::Conflict, "You cannot do this to your own account")
}
