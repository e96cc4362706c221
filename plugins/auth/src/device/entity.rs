//! The record behind a device that has been signed in from.

use linchpin::prelude::*;

/// A device from which a user has completed a sign-in.
#[entity(namespace = "auth", index(user_id, desc(last_seen_at)), sort = desc(last_seen_at), ttl(expires_at), routes(disabled))]
#[derive(Clone)]
pub(crate) struct Device {
    /// SHA-256 of its secret, which itself is stored nowhere.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// Until when it counts as the second factor.
    pub(crate) trusted_until: Option<Timestamp>,
    /// What the account was like when it was trusted: a change of its password or its factors ends
    /// that.
    pub(crate) trusted_version: Option<i64>,
    pub(crate) created_at: Timestamp,
    /// When its owner was told of it, if they were.
    pub(crate) told_at: Option<Timestamp>,
    pub(crate) last_seen_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The devices of a user, the latest seen first.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_HOLDER: Operation<Device>;
