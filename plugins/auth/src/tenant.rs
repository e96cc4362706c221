//! Which tenant somebody acts in: the app's to know.

use std::sync::Arc;

use linchpin::{Adapters, BoxFuture, Error, Result};
use serde_json::Value;

use crate::config::AuthSection;

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

/// Says which tenant a user acts in: `tenants`. The answer is remembered with the session, for as
/// long as what else is known of it, and nothing that a request says can change it.
pub trait TenantResolver: Send + Sync + 'static {
    /// The tenant of a user who is a member of it; `None` for nobody's. Without an answer the
    /// request is `unavailable`.
    ///
    /// Whoever resolves checks the membership: a claim alone may be older than its end.
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>>;

    /// The roles that the user has in that tenant, beside those of the account, which count
    /// everywhere: none unless it is written. Each is one of `auth.roles`, and none is
    /// `auth.admin.role`: who administers accounts does so in all tenants. Another one, or no
    /// answer, makes the request `unavailable`.
    ///
    /// Like the tenant they are remembered with the session: a change of memberships is told by
    /// [`AuthService::membership_changed`](crate::AuthService::membership_changed).
    fn roles<'a>(
        &'a self,
        cx: &'a TenantCx,
        tenant: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        let _ = (cx, tenant);
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Where a user acts, and what they may do there.
#[derive(Debug, Default)]
pub(crate) struct Acting {
    pub(crate) tenant: Option<String>,
    /// Of the account and of the tenant, each once.
    pub(crate) roles: Vec<String>,
}

/// The resolver of an app, with what it gets.
#[derive(Clone)]
pub(crate) struct Tenants {
    resolver: Option<Arc<dyn TenantResolver>>,
    services: Adapters,
    /// Roles that a tenant may give.
    given: Arc<[String]>,
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tenants")
            .field(&self.resolver.is_some())
            .finish()
    }
}

impl Tenants {
    pub(crate) fn new(config: &AuthSection, services: Adapters) -> Self {
        let given = config
            .roles
            .iter()
            .filter(|role| config.admin_role.as_ref() != Some(role));
        Self {
            resolver: config.tenants.clone(),
            services,
            given: given.cloned().collect(),
        }
    }

    /// The tenant that a user acts in, and all roles that they have there.
    ///
    /// # Errors
    /// When the app cannot tell.
    pub(crate) async fn of(
        &self,
        user_id: &str,
        roles: &[String],
        claims: &serde_json::Map<String, Value>,
    ) -> Result<Acting> {
        let mut all = roles.to_vec();
        let Some(resolver) = &self.resolver else {
            return Ok(Acting {
                tenant: None,
                roles: all,
            });
        };
        let cx = TenantCx {
            user_id: user_id.to_owned(),
            roles: roles.to_vec(),
            claims: Value::Object(claims.clone()),
            services: self.services.clone(),
        };
        let Some(tenant) = resolver.tenant(&cx).await? else {
            return Ok(Acting {
                tenant: None,
                roles: all,
            });
        };
        for role in resolver.roles(&cx, &tenant).await? {
            if !self.given.contains(&role) {
                let text = format!(
                    "the `TenantResolver` gives the role `{role}`: it is not in `auth.roles`, or it is that of administrators"
                );
                return Err(Error::unavailable(text));
            }
            if !all.contains(&role) {
                all.push(role);
            }
        }
        Ok(Acting {
            tenant: Some(tenant),
            roles: all,
        })
    }
}
