//! The entity of recognised devices.

use linchpin::prelude::*;

/// A device from which a user has completed a sign-in.
#[entity(namespace = "auth", index(user_id, desc(last_seen_at)), sort = desc(last_seen_at), ttl(expires_at), routes(disabled))]
#[derive(Clone)]
pub(crate) struct Device {
    /// SHA-256 of the token's secret, which is not stored.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// The time until which the device replaces the second factor.
    pub(crate) trusted_until: Option<Timestamp>,
    /// The version of the account when the device was trusted. A change of the password or of a
    /// factor ends the trust.
    pub(crate) trusted_version: Option<i64>,
    pub(crate) created_at: Timestamp,
    /// When the user got a mail about this device; `None` if no mail was sent.
    #[field(column = "told_at")]
    pub(crate) notified_at: Option<Timestamp>,
    pub(crate) last_seen_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Returns the devices of a user, last seen first.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_HOLDER: Operation<Device>;
