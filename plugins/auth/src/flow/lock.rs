//! Locks of an account: concurrent changes wait, or get a conflict.

use linchpin::{Code, Cx, Error, Result};

use crate::core::Core;
use crate::entities::{User, UserPatch};

impl Core {
    /// Locks the account in the caller's transaction, if it did not change since it was read.
    ///
    /// # Errors
    /// `precondition_failed` if it has changed.
    pub(crate) async fn lock_unchanged(&self, cx: &Cx, user: &User) -> Result<User> {
        // The patch writes a value that the account has already. The write itself takes the lock.
        let no_change = UserPatch {
            mfa_version: Some(user.mfa_version),
            ..UserPatch::default()
        };
        self.users
            .update(cx, user.id.as_str(), no_change, Some(user.version))
            .await
    }

    /// Locks the account as it is now, for a proof that does not come from a session, such as a
    /// mailed link. Unlike for [`Core::lock_unchanged`], a change of the profile does not matter,
    /// so nobody can block the owner by repeated changes.
    ///
    /// # Errors
    /// `precondition_failed` if one of these fields changed since the account was read: the
    /// address, its verification, the suspension, the scheduled deletion. The password is not one
    /// of them, because anyone who knows it can change it repeatedly.
    pub(crate) async fn lock_current(&self, cx: &Cx, user: &User) -> Result<User> {
        let now = self.lock_row(cx, user).await?;
        let checked_fields = |user: &User| {
            (
                user.email_normalised.clone(),
                user.email_verified_at,
                user.suspended_at,
                user.deletion_due_at,
            )
        };
        if checked_fields(&now) == checked_fields(user) {
            Ok(now)
        } else {
            Err(changed_since_check())
        }
    }

    /// Like [`Core::lock_current`], for a proof by password.
    ///
    /// # Errors
    /// The errors of [`Core::lock_current`]; also if the password has changed.
    pub(crate) async fn lock_with_password(&self, cx: &Cx, user: &User) -> Result<User> {
        let now = self.lock_current(cx, user).await?;
        if now.password_version == user.password_version {
            Ok(now)
        } else {
            Err(changed_since_check())
        }
    }

    /// Locks the account in any state. It waits for other transactions that lock the account, and
    /// sees their changes.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn lock_row(&self, cx: &Cx, user: &User) -> Result<User> {
        // The patch changes nothing, because the creation time is constant. The write itself takes
        // the lock.
        let no_change = UserPatch {
            created_at: Some(user.created_at),
            ..UserPatch::default()
        };
        self.users
            .update(cx, user.id.as_str(), no_change, None)
            .await
    }
}

fn changed_since_check() -> Error {
    Error::new(Code::PreconditionFailed, "The account was changed")
}
