//! Which tenant somebody acts in: the app's to know.

use std::sync::Arc;

use linchpin::{Adapters, BoxFuture, Result};
use serde_json::Value;

/// Whose tenant is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TenantCx {
    /// The account.
    pub user_id: String,
    /// What its owner may do.
    pub roles: Vec<String>,
    /// The claims of the token, those of `post_login` among them.
    pub claims: Value,
    /// Adapters, and what start-up hooks have provided.
    pub services: Adapters,
}

/// Says which tenant a user acts in: `tenants`. The answer is remembered with the session, for as long as what else is known of it,
/// and nothing that a request says can change it.
pub trait TenantResolver: Send + Sync + 'static {
    /// The tenant of a user who is a member of it; `None` for nobody's. Without an answer the request is `unavailable`.
    ///
    /// Whoever resolves checks the membership: a claim alone may be older than its end.
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>>;
}

/// The resolver of an app, with what it gets.
#[derive(Clone)]
pub(crate) struct Tenants {
    resolver: Option<Arc<dyn TenantResolver>>,
    services: Adapters,
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tenants").field(&self.resolver.is_some()).finish()
    }
}

impl Tenants {
    pub(crate) fn new(resolver: Option<Arc<dyn TenantResolver>>, services: Adapters) -> Self {
        Self { resolver, services }
    }

    /// The tenant that a user acts in.
    ///
    /// # Errors
    /// When the app cannot tell.
    pub(crate) async fn of(&self, user_id: &str, roles: &[String], claims: &serde_json::Map<String, Value>) -> Result<Option<String>> {
        let Some(resolver) = &self.resolver else { return Ok(None) };
        let cx = TenantCx {
            user_id: user_id.to_owned(),
            roles: roles.to_vec(),
            claims: Value::Object(claims.clone()),
            services: self.services.clone(),
        };
        resolver.tenant(&cx).await
    }
}
