//! The entities of second factors and recovery codes.

use linchpin::prelude::*;

use super::ProofMethod;

/// A second factor with data: the secret of an authenticator app or the number of a phone.
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
    pub(crate) way: ProofMethod,
    /// The data, encrypted for this place.
    #[field(private)]
    pub(crate) sealed: String,
    /// The last accepted time step of an authenticator app. Earlier steps are refused.
    pub(crate) last_step: Option<i64>,
    pub(crate) created_at: Timestamp,
}

/// An unused recovery code.
#[entity(namespace = "auth", unique(user_id, mac), routes(disabled))]
#[derive(Clone)]
pub(crate) struct RecoveryCode {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// The MAC of the code. The code itself is not stored.
    #[field(private)]
    pub(crate) mac: String,
    pub(crate) created_at: Timestamp,
}

/// Returns a factor of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id), way = param(way)), returns = "one", route(disabled))]
pub(crate) const FACTOR_OF_USER: Operation<Factor>;

/// Returns all factors with data of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const FACTORS_OF: Operation<Factor>;

/// Returns the unused recovery codes of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const CODES_OF: Operation<RecoveryCode>;

/// Returns a recovery code if it is unused.
#[operation(kind = "lookup", fields(user_id = param(user_id), mac = param(mac)), returns = "one", route(disabled))]
pub(crate) const UNUSED: Operation<RecoveryCode>;

/// Consumes a recovery code. Only one of several concurrent requests succeeds.
#[operation(kind = "consume", filter = (user_id == param(user_id) && mac == param(mac)), returns = "boolean", route(disabled))]
pub(crate) const USE: Operation<RecoveryCode>;
