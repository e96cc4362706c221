//! Sessions: what a token is good for, how clients carry it, and when it ends.

pub(crate) mod bus;
pub(crate) mod check;
pub(crate) mod cookies;
pub(crate) mod credential;
pub(crate) mod csrf;
pub(crate) mod refresh;
pub(crate) mod sid;

use linchpin::Timestamp;

use crate::mfa::Way;

/// What guards and routes know of a caller whose session was checked; attached to the actor.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) user_id: String,
    /// The public handle of the session.
    pub(crate) handle: String,
    /// The `sid`, which CSRF tokens are bound to.
    pub(crate) sid: String,
    /// Since when they are signed in, or have stepped up.
    pub(crate) auth_at: Timestamp,
    pub(crate) step_up_at: Option<Timestamp>,
    /// What they stepped up with.
    pub(crate) step_up_by: Option<Way>,
    /// The version of the account's factors for which one of them was proved.
    pub(crate) proved_factors: Option<i64>,
    pub(crate) aal: i64,
    /// Whether all that was shown is that they hold a passkey.
    pub(crate) holds_passkey_alone: bool,
    pub(crate) email_verified: bool,
    /// Whether the account is to be deleted: then little may be done with it.
    pub(crate) restricted: bool,
    /// Whether a second factor is required and there is none yet.
    pub(crate) mfa_setup_required: bool,
}

/// Whether something happened so many seconds ago or less, in whole seconds.
pub(crate) fn is_fresh(at: Timestamp, now: Timestamp, seconds: u64) -> bool {
    (now.millis() - at.millis()).div_euclid(1000) <= i64::try_from(seconds).unwrap_or(i64::MAX)
}
