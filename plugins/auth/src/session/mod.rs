//! Sessions: what a token is good for, how clients carry it, and when it ends.

pub(crate) mod check;
pub(crate) mod cookies;
pub(crate) mod credential;
pub(crate) mod csrf;
pub(crate) mod refresh;
pub(crate) mod sid;

use linchpin::Timestamp;

/// What guards and routes know of a caller whose session was checked; attached to the actor.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) user_id: String,
    /// The public handle of the session.
    pub(crate) handle: String,
    /// The `sid`, which CSRF tokens are bound to.
    pub(crate) sid: String,
    #[allow(dead_code)] // routes that ask for a recent sign-in are on their way
    pub(crate) auth_at: Timestamp,
    pub(crate) step_up_at: Option<Timestamp>,
    pub(crate) aal: i64,
    pub(crate) email_verified: bool,
    /// Whether the account is to be deleted: then little may be done with it.
    pub(crate) restricted: bool,
    /// Whether a second factor is required and there is none yet.
    pub(crate) mfa_setup_required: bool,
}
