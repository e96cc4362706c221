//! The record behind a linked provider.

use linchpin::prelude::*;

/// A provider that the owner of an account signs in with.
#[entity(
    namespace = "auth",
    unique(issuer, subject),
    unique(user_id, provider),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct ProviderLink {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    /// The id that it is set up under here.
    #[field(immutable)]
    pub(crate) provider: String,
    /// The issuer, or the id of a provider that has none: whose name for them it is.
    #[field(immutable)]
    pub(crate) issuer: String,
    /// Its name for them. Never an address, which may change hands.
    #[field(immutable)]
    pub(crate) subject: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    pub(crate) created_at: Timestamp,
}

/// The link of somebody a provider knows.
#[operation(kind = "lookup", fields(issuer = param(issuer), subject = param(subject)), returns = "one", route(disabled))]
pub(crate) const OF_IDENTITY: Operation<ProviderLink>;

/// The links of an account.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const LINKS_OF: Operation<ProviderLink>;
