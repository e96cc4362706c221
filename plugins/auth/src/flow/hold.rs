//! Locks of an account: concurrent changes wait, or get a conflict.

use linchpin::{Code, Cx, Error, Result};

use crate::core::Core;
use crate::entities::{User, UserPatch};

impl Core {
    /// Locks the account in the caller's transaction, if it did not change since it was read.
    ///
    /// # Errors
    /// `precondition_failed` if it has changed.
    pub(crate) async fn hold(&self, cx: &Cx, user: &User) -> Result<User> {
        let seen = UserPatch {
            mfa_version: Some(user.mfa_version),
            ..UserPatch::default()
        };
        self.users
            .update(cx, user.id.as_str(), seen, Some(user.version))
            .await
    }

    /// Locks the account as it is now, for a proof that no session can give. Unlike [`Core::hold`],
    /// a change of the profile does not matter, so nobody can block the owner by repeated changes.
    ///
    /// # Errors
    /// `precondition_failed` if a field changed that was checked when the account was read: the
    /// address and its verification, suspension, deletion. The password is not among them, because
    /// anyone who knows it can change it repeatedly.
    pub(crate) async fn hold_now(&self, cx: &Cx, user: &User) -> Result<User> {
        let now = self.hold_row(cx, user).await?;
        let judged = |user: &User| {
            (
                user.email_normalised.clone(),
                user.email_verified_at,
                user.suspended_at,
                user.deletion_due_at,
            )
        };
        if judged(&now) == judged(user) {
            Ok(now)
        } else {
            Err(other_than_judged())
        }
    }

    /// Like [`Core::hold_now`], for a proof by password.
    ///
    /// # Errors
    /// The errors of [`Core::hold_now`]; also if the password has changed.
    pub(crate) async fn hold_with_password(&self, cx: &Cx, user: &User) -> Result<User> {
        let now = self.hold_now(cx, user).await?;
        if now.password_version == user.password_version {
            Ok(now)
        } else {
            Err(other_than_judged())
        }
    }

    /// Locks the account in any state. It waits for other transactions that lock the account, and
    /// sees their changes.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn hold_row(&self, cx: &Cx, user: &User) -> Result<User> {
        // The creation time never changes. The write itself takes the lock.
        let same = UserPatch {
            created_at: Some(user.created_at),
            ..UserPatch::default()
        };
        self.users.update(cx, user.id.as_str(), same, None).await
    }
}

fn other_than_judged() -> Error {
    Error::new(Code::PreconditionFailed, "The account was changed")
}
