//! The entity of links to providers.

use linchpin::prelude::*;

/// A link of an account to a provider, by which its owner signs in.
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
    /// The id of the provider in this app.
    #[field(immutable)]
    pub(crate) provider: String,
    /// The issuer that assigned the subject, or the id of a provider without an issuer.
    #[field(immutable)]
    pub(crate) issuer: String,
    /// The issuer's id of the user. It is never an email address, because an address can get
    /// another owner.
    #[field(immutable)]
    pub(crate) subject: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    pub(crate) created_at: Timestamp,
}

/// Returns the link of an identity.
#[operation(kind = "lookup", fields(issuer = param(issuer), subject = param(subject)), returns = "one", route(disabled))]
pub(crate) const OF_IDENTITY: Operation<ProviderLink>;

/// Returns the links of an account.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const LINKS_OF: Operation<ProviderLink>;
