//! What those who run an app do with accounts: by its routes, or by its code.

use linchpin::entity::FieldType;
use linchpin::filter::{Filter, Op, Operand as RightSide, Source};
use linchpin::prelude::{Entity, Field, ListQuery, Page};
use linchpin::{Code, Cx, Error, Problem, Result};
use serde_json::{Value, json};

use super::{OVERTAKEN, Reason};
use crate::core::{Client, Core, Happened};
use crate::entities::{Audit, User, UserPatch, audit, user};
use crate::error::overtaken;
use crate::identity::normalise;
use crate::mail::MailKind;
use crate::onetime::Purpose;
use crate::service::{AccountQuery, AuditQuery};

impl Core {
    /// Shuts an account: nobody signs in to it, its sessions end, and nothing it was mailed or
    /// asked works any more. One that is shut stays so since then; another reason takes the place
    /// of its own.
    ///
    /// # Errors
    /// `not_found`; `conflict` where an administrator shuts the last one, having been shut out
    /// meanwhile.
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
            let happened = Happened::to("auth:user.updated", id)
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
        let happened = Happened::to("auth:account.suspended", id).details(json!({ "by": by }));
        self.change_account(client, id, (patch, None), happened, async |cx, user| {
            // Whoever has a link to sign in, or is back from a provider, is told why they cannot;
            // it ends before it could work again.
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
                self.leaves_an_administrator(cx, user).await
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Opens it again. What had ended stays ended; and nothing ends where it was open.
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
        let happened = Happened::to("auth:account.unsuspended", id).details(json!({ "by": by }));
        self.change_account(client, id, (patch, None), happened, async |cx, _| {
            self.parts.tokens.void(cx, id, Purpose::ALL).await
        })
        .await
    }

    /// Replaces what an account's owner may do, from the next request on.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for what is no role of the app, or stands there twice;
    /// `conflict` where an administrator takes the role away from the last one.
    pub(crate) async fn set_roles(
        &self,
        client: &Client,
        by: Option<&str>,
        id: &str,
        roles: Vec<String>,
    ) -> Result<User> {
        self.judge_roles(&roles)?;
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
        let given_up = role
            .filter(|role| before.roles.iter().any(|had| had == role))
            .map(str::to_owned);
        let happened =
            Happened::to("auth:role.changed", id).details(json!({ "by": by, "roles": roles }));
        let patch = UserPatch {
            roles: Some(roles),
            ..UserPatch::default()
        };
        self.change_account(
            client,
            id,
            (patch, None),
            happened,
            async |cx, _| match given_up {
                Some(role) => self.keeps_an_administrator(cx, role).await,
                None => Ok(()),
            },
        )
        .await
    }

    /// Lets an account go that is shut or is to be deleted, as part of the transaction in which it
    /// is: somebody else is an administrator, if it was one.
    ///
    /// # Errors
    /// `conflict`.
    pub(super) async fn leaves_an_administrator(&self, cx: &Cx, gone: &User) -> Result<()> {
        match self
            .config
            .auth
            .admin_role
            .as_ref()
            .filter(|role| gone.roles.contains(role))
        {
            Some(role) => self.keeps_an_administrator(cx, role.clone()).await,
            None => Ok(()),
        }
    }

    /// Lets an account give the role of administrators up, as part of the transaction in which it
    /// has, if somebody else has it who can sign in. That one is held to it: of two who take it
    /// from each other at once, one is told to look again.
    async fn keeps_an_administrator(&self, cx: &Cx, role: String) -> Result<()> {
        let mut behind = None;
        loop {
            let page = self
                .users
                .list(
                    cx,
                    paged(None, behind).filter(holds(user::roles, role.clone())),
                )
                .await?;
            let stays = |user: &&User| {
                user.suspended_at.is_none()
                    && user.deletion_due_at.is_none()
                    && !self.must_verify(user)
            };
            if let Some(other) = page.items.iter().find(stays) {
                return self.hold(cx, other).await.map(drop).map_err(overtaken);
            }
            behind = page.next_cursor;
            if behind.is_none() {
                return Err(Error::new(
                    Code::Conflict,
                    format!(
                        "This is the last account with the role `{role}`: give it to another first"
                    ),
                ));
            }
        }
    }

    /// Judges what is to be the roles of an account.
    ///
    /// # Errors
    /// `validation_failed` for what is no role of the app, or stands there twice.
    pub(crate) fn judge_roles(&self, roles: &[String]) -> Result<()> {
        let mut problems = Vec::new();
        for (at, role) in roles.iter().enumerate() {
            if !self.config.auth.roles.contains(role) {
                problems.push(Problem::new(
                    format!("roles[{at}]"),
                    "enum",
                    "is no role of this app",
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

    /// Notes that an email address is known to be its owner's, or that it is not.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn set_email_verified(
        &self,
        client: &Client,
        id: &str,
        verified: bool,
    ) -> Result<User> {
        for _ in 0..OVERTAKEN {
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
                Happened::to("auth:email.verified", id)
            } else {
                Happened::to("auth:user.updated", id)
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
                // When it was first proved is written once: what was read of it has to be as it
                // was.
                Err(error) if error.code() == Code::PreconditionFailed => {}
                done => return done,
            }
        }
        Err(Error::unavailable("an account kept changing"))
    }

    /// Changes an account, as it was seen if it says so, and writes down that it was, together with
    /// what else belongs to it; what is remembered of its sessions ends.
    ///
    /// # Errors
    /// `not_found`; `precondition_failed` when it was not seen so.
    pub(crate) async fn change_account(
        &self,
        client: &Client,
        id: &str,
        (patch, seen): (UserPatch, Option<i64>),
        happened: Happened<'_>,
        more: impl AsyncFnOnce(&Cx, &User) -> Result<()>,
    ) -> Result<User> {
        let changed = client
            .cx()
            .transaction(async |cx| {
                let user = self.users.update(cx, id, patch, seen).await?;
                self.audit(cx, client, happened).await?;
                more(cx, &user).await?;
                Ok(user)
            })
            .await;
        self.checks.forget(id);
        changed
    }

    /// Accounts, the newest first. `at` is what the address that is looked for is called.
    ///
    /// # Errors
    /// `validation_failed` for what is no address; `invalid_cursor`.
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
            query = query.filter(holds(user::roles, role));
        }
        self.users.list(&client.cx(), query).await
    }

    /// What has happened, the latest first.
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

    /// Ends a session of an account.
    ///
    /// # Errors
    /// `not_found` when there is none that may still be used.
    pub(crate) async fn revoke_session(
        &self,
        client: &Client,
        user: &str,
        handle: &str,
        asking: Option<&str>,
    ) -> Result<()> {
        let session = self.active_session(client, user, handle, asking).await?;
        if self
            .end(&client.cx(), client, &session, Reason::Revoked)
            .await?
        {
            Ok(())
        } else {
            Err(Error::not_found())
        }
    }

    /// Replaces what the app keeps with an account for itself.
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
            Happened::to("auth:user.updated", id).details(json!({ "method": "app_metadata" }));
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

/// The page of a list.
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

/// A list that holds an element.
fn holds<F: Field<Ty = Vec<String>>>(_field: F, element: String) -> Filter {
    Filter::cond(
        F::INDEX,
        Op::Has,
        RightSide::One(Source::Value(element.into_value())),
    )
}

/// What an administrator must not do to their own account.
pub(crate) fn not_oneself() -> Error {
    Error::new(Code::Conflict, "Nobody does this to their own account")
}
