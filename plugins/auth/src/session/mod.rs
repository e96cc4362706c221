//! Sessions: checks, cookies, tokens and CSRF protection.

pub(crate) mod bus;
pub(crate) mod check;
pub(crate) mod cookies;
pub(crate) mod credential;
pub(crate) mod csrf;
pub(crate) mod refresh;
pub(crate) mod sid;

use linchpin::Timestamp;

use crate::mfa::ProofMethod;

/// The checked session of a caller, for guards and routes. It is attached to the actor.
#[derive(Clone, Debug)]
pub(crate) struct CheckedSession {
    pub(crate) user_id: String,
    /// The handle of the session.
    pub(crate) handle: String,
    /// The `sid`, to which CSRF tokens are bound.
    pub(crate) sid: String,
    /// The time of the sign-in or of the last step-up.
    pub(crate) auth_at: Timestamp,
    pub(crate) step_up_at: Option<Timestamp>,
    /// The method of the last step-up.
    pub(crate) step_up_by: Option<ProofMethod>,
    /// The `mfa_version` of the account for which a factor was proved.
    pub(crate) proved_factors: Option<i64>,
    pub(crate) aal: i64,
    /// Whether the only proof is the possession of a passkey.
    pub(crate) proved_only_by_passkey: bool,
    pub(crate) email_verified: bool,
    /// Whether the deletion of the account is scheduled, which restricts the session.
    pub(crate) restricted: bool,
    /// Whether the account must set up a second factor.
    pub(crate) mfa_setup_required: bool,
}

/// Whether a time is at most this number of whole seconds ago.
pub(crate) fn is_fresh(at: Timestamp, now: Timestamp, seconds: u64) -> bool {
    (now.millis() - at.millis()).div_euclid(1000) <= i64::try_from(seconds).unwrap_or(i64::MAX)
}
