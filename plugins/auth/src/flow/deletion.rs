//! Deletion of accounts: request, cancellation and removal. An account whose deletion is due counts
//! as deleted at once. Its removal is a background job that can be interrupted at any point and
//! continues later.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::http::SessionWatches;
use linchpin::prelude::*;
use linchpin::{Code, Cx, PageArgs, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::proof::Proof;
use super::{Reason, To};
use crate::core::{AuditEvent, Client, Core, later, millis};
use crate::entities::{Audit, AuditPatch, User, UserPatch, audit, user};
use crate::error::{NOT_SCHEDULED, conflict, refuse};
use crate::hooks::AccountDeletion;
use crate::keys::derive;
use crate::mail::MailKind;
use crate::onetime::{OneTime, Purpose, Terms};
use crate::session::CheckedSession;

/// Interval at which the job looks for due accounts.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Number of accounts in one look-up.
const ACCOUNTS_PER_READ: u32 = 50;
/// Maximum number of audit entries in one read.
const ENTRIES_PER_READ: u32 = 200;

impl Core {
    /// Runs the hook, then schedules the deletion of an account. Its other sessions end, and this
    /// one is restricted. Without a grace period the deletion is due at once.
    ///
    /// # Errors
    /// The refusal of the hook; 409 if the account changed since it was read, or if it is the last
    /// administrator.
    pub(crate) async fn schedule_deletion(
        &self,
        client: &Client,
        user: &User,
        known: &CheckedSession,
        proof: Proof,
    ) -> Result<User> {
        let grace = self.config.auth.account_deletion.grace_seconds;
        let due = later(client.now, millis(grace));
        let deletion = AccountDeletion {
            user_id: user.id.clone(),
            scheduled_for: Some(due),
        };
        self.hooks
            .run_pre(&self.hook_cx(client), &deletion, |hooks, cx, input| {
                hooks.pre_delete_account(cx, input)
            })
            .await?;
        let scheduled = client
            .cx()
            .transaction(async |cx| {
                proof.spend(self, cx, client, user).await?;
                let patch = UserPatch {
                    deletion_due_at: Some(Some(due)),
                    ..UserPatch::default()
                };
                let changed = self
                    .users
                    .update(cx, user.id.as_str(), patch, Some(user.version))
                    .await
                    .map_err(conflict)?;
                // An account that is scheduled for deletion cannot change its address.
                self.void_new_email(cx, &user.id).await?;
                for other in self.sessions_of(cx, &user.id).await? {
                    if grace == 0 || other.handle != known.handle {
                        self.end(cx, client, &other, Reason::Deletion).await?;
                    }
                }
                // Written even without a grace period: the removal reads the client of this request
                // from the entry.
                let happened = AuditEvent::about("auth:account.deletion.scheduled", &user.id)
                    .session(&known.handle);
                self.audit(cx, client, happened.details(json!({ "scheduledFor": due })))
                    .await?;
                if grace > 0 {
                    self.mail_cancellation_link(cx, client, &changed, due, grace)
                        .await?;
                }
                self.check_other_administrator(cx, &changed).await?;
                Ok(changed)
            })
            .await;
        self.checks.forget(&user.id);
        scheduled
    }

    /// Mails the owner the date of the deletion, with a link that cancels it if a page is
    /// configured.
    async fn mail_cancellation_link(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        due: Timestamp,
        grace: u64,
    ) -> Result<()> {
        let Some(page) = &self.config.auth.account_deletion.link_base_url else {
            return self
                .parts
                .notice_of(
                    cx,
                    client,
                    user,
                    MailKind::DeletionScheduled,
                    &[("due", &due.to_string())],
                )
                .await;
        };
        let Some(to) = To::owner(user) else {
            return Ok(());
        };
        let lifetime = Duration::from_secs(grace);
        let token = self
            .parts
            .tokens
            .issue(
                cx,
                Purpose::CancelDeletion,
                &user.id,
                &Value::Null,
                Terms::link(lifetime),
            )
            .await?;
        self.parts
            .link_at(
                cx,
                to,
                MailKind::CancelDeletion,
                Some(page),
                &token,
                lifetime,
                Some(due),
            )
            .await
    }

    /// Cancels a deletion, by a session or by the mailed token.
    ///
    /// # Errors
    /// 409 `not_scheduled`; 400 `invalid_token` if another request consumed the token.
    pub(crate) async fn cancel_deletion(
        &self,
        client: &Client,
        user: &User,
        token: Option<&OneTime>,
    ) -> Result<()> {
        if user.deletion_due_at.is_none() {
            return Err(refuse(NOT_SCHEDULED));
        }
        let cancelled = client
            .cx()
            .transaction(async |cx| {
                if let Some(token) = token
                    && !self.parts.tokens.take(cx, token).await?
                {
                    return Err(refuse(crate::error::INVALID_TOKEN));
                }
                let user = self.lock_current(cx, user).await.map_err(conflict)?;
                self.cancel_deletion_in(cx, client, &user).await.map(drop)
            })
            .await;
        self.checks.forget(&user.id);
        cancelled
    }

    /// Cancels a deletion in the caller's transaction, and mails the owner. Returns the changed
    /// account.
    ///
    /// # Errors
    /// 409 if the account changed since it was read.
    pub(super) async fn cancel_deletion_in(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
    ) -> Result<User> {
        let patch = UserPatch {
            deletion_due_at: Some(None),
            ..UserPatch::default()
        };
        let changed = self
            .users
            .update(cx, user.id.as_str(), patch, Some(user.version))
            .await
            .map_err(conflict)?;
        self.parts
            .tokens
            .void(cx, &user.id, &[Purpose::CancelDeletion])
            .await?;
        let details = json!({ "scheduledFor": user.deletion_due_at });
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:account.deletion.cancelled", &user.id).details(details),
        )
        .await?;
        self.parts
            .notice(cx, client, &changed, MailKind::DeletionCancelled)
            .await?;
        Ok(changed)
    }

    /// Deletes accounts whose deletion is due, and returns their number. An account that fails is
    /// tried again later and does not delay others.
    ///
    /// # Errors
    /// If the store cannot list them.
    pub(crate) async fn purge_due(&self) -> Result<usize> {
        let own = Client::of_app(self.now());
        let (mut removed, mut cursor_of_next) = (0, None::<String>);
        loop {
            let due = ListQuery::new()
                .filter(user::deletion_due_at.lte(Some(own.now)))
                .sort(user::deletion_due_at, Direction::Asc);
            let due = cursor_of_next
                .take()
                .map_or_else(|| due.clone(), |cursor| due.clone().cursor(cursor))
                .limit(ACCOUNTS_PER_READ);
            let page = self.users.list(&own.cx(), due).await?;
            for user in page.items {
                match self.purge(&user).await {
                    Ok(()) => removed += 1,
                    Err(error) => {
                        tracing::warn!(error = ?error, "an account whose deletion is due was not deleted; the job tries again later");
                    }
                }
            }
            match page.next_cursor {
                Some(next) => cursor_of_next = Some(next),
                None => return Ok(removed),
            }
        }
    }

    /// Deletes an account that is due, with all its records. Its audit log entries stay, under a
    /// pseudonym.
    ///
    /// # Errors
    /// If the store fails. The next call continues.
    pub(crate) async fn purge(&self, user: &User) -> Result<()> {
        let pseudonym =
            URL_SAFE_NO_PAD.encode(self.ring.mac(derive::Purpose::Audit, &[user.id.as_bytes()]));
        let client = self.requesting_client(user, &pseudonym).await?;
        // The long part comes first, outside of the transaction. Few entries are left for the
        // transaction, because an account whose deletion is due gets few new ones.
        self.pseudonymise_entries(&client.cx(), &user.id, &pseudonym)
            .await?;
        let removed = client
            .cx()
            .transaction(async |cx| {
                for session in self.sessions_of(cx, &user.id).await? {
                    self.end(cx, &client, &session, Reason::Deletion).await?;
                }
                self.erase(cx, user).await?;
                SessionWatches::of(&self.adapters)
                    .account_deleted(cx, &user.id)
                    .await?;
                self.parts
                    .notice(cx, &client, user, MailKind::AccountDeleted)
                    .await?;
                self.users
                    .delete(cx, user.id.as_str(), Some(user.version))
                    .await?;
                // Subscribers of this event get the id of the account; the stored entry gets the
                // pseudonym.
                self.audit(
                    cx,
                    &client,
                    AuditEvent::about("auth:user.deleted", &user.id),
                )
                .await?;
                self.pseudonymise_entries(cx, &user.id, &pseudonym).await
            })
            .await;
        self.checks.forget(&user.id);
        match removed {
            Ok(()) => {
                let deletion = AccountDeletion {
                    user_id: user.id.clone(),
                    scheduled_for: user.deletion_due_at,
                };
                let cx = self.hook_cx(&client);
                self.hooks
                    .spawn_post("post_delete_account", cx, deletion, |hooks, cx, input| {
                        hooks.post_delete_account(cx, input)
                    });
                Ok(())
            }
            // Another process deleted the account.
            Err(error) if error.code() == Code::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes all records of an account except its sessions and its audit log entries. The caller
    /// ends the sessions; the entries stay. [`ERASED`] lists the entities.
    async fn erase(&self, cx: &Cx, user: &User) -> Result<()> {
        let (parts, id, all) = (&self.parts, user.id.as_str(), PageArgs::default);
        parts.tokens.void(cx, id, Purpose::ALL).await?;
        self.devices.forget(cx, id).await?;
        for earlier in parts
            .history
            .of_owner(cx, id.to_owned(), all())
            .await?
            .items
        {
            parts.history.delete(cx, earlier.id, None).await?;
        }
        for factor in parts
            .factors
            .factors_of(cx, id.to_owned(), all())
            .await?
            .items
        {
            parts.factors.delete(cx, factor.id, None).await?;
        }
        for code in parts.codes.codes_of(cx, id.to_owned(), all()).await?.items {
            parts.codes.delete(cx, code.id, None).await?;
        }
        self.remove_links(cx, id).await?;
        for passkey in self.passkeys.of(cx, id).await? {
            self.passkeys
                .credentials
                .delete(cx, passkey.id, None)
                .await?;
        }
        Ok(())
    }

    /// The client of the request that scheduled the deletion, at the current time: the context of
    /// the hook.
    async fn requesting_client(&self, user: &User, pseudonym: &str) -> Result<Client> {
        let own = Client::of_app(self.now());
        // An interrupted removal may have replaced the id in the entry already.
        let schedule_entry = ListQuery::new()
            .filter(audit::user_id.one_of([Some(user.id.clone()), Some(pseudonym.to_owned())]))
            .filter(audit::event.eq("auth:account.deletion.scheduled".to_owned()))
            .sort(audit::at, Direction::Desc)
            .limit(1);
        let found = self
            .audits
            .list(&own.cx(), schedule_entry)
            .await?
            .items
            .pop();
        // An entry with another date belongs to a cancelled deletion.
        let due = json!(user.deletion_due_at);
        let Some(row) = found.filter(|row| {
            row.details
                .as_ref()
                .is_some_and(|details| details["scheduledFor"] == due)
        }) else {
            return Ok(own);
        };
        Ok(Client {
            ip: row.ip.and_then(|ip| ip.parse().ok()),
            user_agent: row.user_agent,
            request_id: row.request_id.unwrap_or_default(),
            ..own
        })
    }

    /// Replaces a user's id by a pseudonym in all audit entries about the user or caused by the
    /// user.
    async fn pseudonymise_entries(&self, cx: &Cx, user: &str, pseudonym: &str) -> Result<()> {
        let about_user = || ListQuery::new().filter(audit::user_id.eq(Some(user.to_owned())));
        let by_user = || ListQuery::new().filter(audit::by_id.eq(Some(user.to_owned())));
        while self
            .pseudonymise_some(cx, about_user(), |_| AuditPatch {
                user_id: set_to(pseudonym),
                ..AuditPatch::default()
            })
            .await?
        {}
        let by_pseudonym = |row: &Audit| {
            let mut details = row.details.clone();
            if let Some(by) = details.as_mut().and_then(|details| details.get_mut("by")) {
                *by = json!(pseudonym);
            }
            AuditPatch {
                by_id: set_to(pseudonym),
                details: Some(details),
                ..AuditPatch::default()
            }
        };
        while self.pseudonymise_some(cx, by_user(), by_pseudonym).await? {}
        Ok(())
    }

    /// Changes the first [`ENTRIES_PER_READ`] of these entries. Returns false if there were
    /// none.
    async fn pseudonymise_some(
        &self,
        cx: &Cx,
        rows: ListQuery<Audit>,
        patch: impl Fn(&Audit) -> AuditPatch,
    ) -> Result<bool> {
        let rows = self
            .audits
            .list(cx, rows.limit(ENTRIES_PER_READ))
            .await?
            .items;
        let any = !rows.is_empty();
        for row in rows {
            let patch = patch(&row);
            match self.audits.update(cx, row.id, patch, None).await {
                Err(error) if error.code() != Code::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(any)
    }
}

/// The value in a patch that sets a nullable field to the pseudonym.
#[allow(clippy::option_option, clippy::unnecessary_wraps)] // as patches have it
fn set_to(pseudonym: &str) -> Option<Option<String>> {
    Some(Some(pseudonym.to_owned()))
}

/// The entities whose records [`Core::erase`] deletes.
#[cfg(test)]
const ERASED: [&str; 7] = [
    "OneTime",
    "Device",
    "PasswordHistory",
    "Factor",
    "RecoveryCode",
    "Credential",
    "ProviderLink",
];

/// The background job that deletes due accounts.
#[derive(Debug)]
pub(crate) struct Purge(JoinHandle<()>);

impl Purge {
    /// Starts the job. It first deletes the accounts that became due while the app was stopped.
    pub(crate) fn start(core: Arc<Core>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                match core.purge_due().await {
                    // There may be more.
                    Ok(removed) if removed > 0 => continue,
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(error = ?error, "accounts whose deletion is due cannot be listed");
                    }
                }
                tokio::time::sleep(core.env.clock.pause(POLL_INTERVAL)).await;
            }
        }))
    }

    /// Stops the job. The store rolls back an open transaction; the next start continues.
    pub(crate) async fn stop(self) {
        self.0.abort();
        // The result is only that the task was aborted.
        let _ = self.0.await;
    }
}

#[cfg(test)]
mod tests {
    use super::ERASED;
    use crate::entities::ENTITIES;

    /// [`ERASED`] must list each entity with records of users.
    #[test]
    fn every_entity_with_user_records_is_deleted_with_the_account() {
        let of_users = ENTITIES
            .entities
            .iter()
            .map(|mounted| mounted.desc)
            .filter(|desc| desc.fields.iter().any(|field| field.name == "user_id"));
        let mut names: Vec<&str> = of_users
            .map(|desc| desc.name)
            .filter(|name| !["Session", "Audit"].contains(name))
            .collect();
        let mut erased = ERASED.to_vec();
        names.sort_unstable();
        erased.sort_unstable();
        assert_eq!(names, erased);
    }
}
