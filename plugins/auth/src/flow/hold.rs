//! Holding an account while something is done about it: what others would change meanwhile waits,
//! or is told to look again.

use linchpin::{Code, Cx, Error, Result};

use crate::core::Core;
use crate::entities::{User, UserPatch};

impl Core {
    /// Holds an account to what it was when it was read, as part of the caller's transaction:
    /// whatever has changed it since, or is about to, the caller is told to look again.
    ///
    /// # Errors
    /// `precondition_failed` when it has changed.
    pub(crate) async fn hold(&self, cx: &Cx, user: &User) -> Result<User> {
        let seen = UserPatch {
            mfa_version: Some(user.mfa_version),
            ..UserPatch::default()
        };
        self.users
            .update(cx, user.id.as_str(), seen, Some(user.version))
            .await
    }

    /// Holds an account as it is now until the caller's transaction ends, for who has proved
    /// themselves by something that no session gives: unlike with [`Core::hold`], somebody who goes
    /// on changing the profile keeps them from nothing.
    ///
    /// # Errors
    /// `precondition_failed` when something has changed that was judged when it was read: the
    /// address and whether it is proved, suspension, deletion. The password is none of that:
    /// whoever knows it can change it over and over as well.
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

    /// The same, for who has proved the password.
    ///
    /// # Errors
    /// As [`Core::hold_now`], and when the password has changed.
    pub(crate) async fn hold_with_password(&self, cx: &Cx, user: &User) -> Result<User> {
        let now = self.hold_now(cx, user).await?;
        if now.password_version == user.password_version {
            Ok(now)
        } else {
            Err(other_than_judged())
        }
    }

    /// Holds an account, whatever has become of it: who holds one in another transaction is waited
    /// for, and what they did is seen.
    ///
    /// # Errors
    /// `not_found`.
    pub(crate) async fn hold_row(&self, cx: &Cx, user: &User) -> Result<User> {
        // When it was made never changes; what counts is that the record is written.
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
