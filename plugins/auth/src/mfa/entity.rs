//! What is stored of factors.

use linchpin::prelude::*;

use super::Way;

/// A factor that is set up and has something to keep: an authenticator app its secret, a phone its
/// number.
#[entity(
    namespace = "auth",
    unique(user_id, way),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct Factor {
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    #[field(immutable)]
    pub(crate) way: Way,
    /// What belongs to it, encrypted for this place.
    #[field(private)]
    pub(crate) sealed: String,
    /// The last step of an authenticator app whose code was accepted: none of before is any more.
    pub(crate) last_step: Option<i64>,
    pub(crate) created_at: Timestamp,
}

/// A recovery code that has not been used.
#[entity(namespace = "auth", unique(user_id, mac), routes(disabled))]
#[derive(Clone)]
pub(crate) struct RecoveryCode {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// All that is kept of it.
    #[field(private)]
    pub(crate) mac: String,
    pub(crate) created_at: Timestamp,
}

/// A factor of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id), way = param(way)), returns = "one", route(disabled))]
pub(crate) const OF_WAY: Operation<Factor>;

/// All factors of a user that have something to keep.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const FACTORS_OF: Operation<Factor>;

/// The unused recovery codes of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const CODES_OF: Operation<RecoveryCode>;

/// A recovery code, as long as it has not been used.
#[operation(kind = "lookup", fields(user_id = param(user_id), mac = param(mac)), returns = "one", route(disabled))]
pub(crate) const UNUSED: Operation<RecoveryCode>;

/// Takes a recovery code: of many who type it, one gets it.
#[operation(kind = "consume", filter = (user_id == param(user_id) && mac == param(mac)), returns = "boolean", route(disabled))]
pub(crate) const USE: Operation<RecoveryCode>;
