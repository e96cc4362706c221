//! The tenant of a user, which the app's resolver returns.

use std::sync::Arc;

use linchpin::{Adapters, BoxFuture, Error, Result};
use serde_json::Value;

use crate::config::AuthSection;

/// The user whose tenant is requested.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TenantCx {
    /// The id of the account.
    pub user_id: String,
    /// The roles of the account.
    pub roles: Vec<String>,
    /// The claims of the token, including those of `post_login`.
    pub claims: Value,
    /// Adapters and values provided at start-up.
    pub services: Adapters,
}

/// Returns the tenant of a user: `auth.tenants`. The result is cached with the session for
/// `auth.session.cacheSeconds`. Nothing in a request can change it.
pub trait TenantResolver: Send + Sync + 'static {
    /// Returns the tenant of which the user is a member; `None` for no tenant. An error makes the
    /// request `unavailable`.
    ///
    /// The implementation must check the membership: a claim of the token may be from the time
    /// before the membership ended.
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>>;

    /// Returns the roles of the user in that tenant, in addition to the roles of the account, which
    /// apply in all tenants. The default is none. Each must be in `auth.roles`, and none may be
    /// `auth.admin.role`, because administrators act on accounts of all tenants. Any other role, or
    /// an error, makes the request `unavailable`.
    ///
    /// The result is cached like the tenant. After a change of memberships, call
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

/// The tenant of a user, and the user's roles there.
#[derive(Debug, Default)]
pub(crate) struct TenantAndRoles {
    pub(crate) tenant: Option<String>,
    /// The roles of the account and of the tenant, without duplicates.
    pub(crate) roles: Vec<String>,
}

/// The resolver of an app with its services.
#[derive(Clone)]
pub(crate) struct Tenants {
    resolver: Option<Arc<dyn TenantResolver>>,
    services: Adapters,
    /// Roles that the resolver may assign in a tenant.
    assignable: Arc<[String]>,
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
        let assignable = config
            .roles
            .iter()
            .filter(|role| config.admin_role.as_ref() != Some(role));
        Self {
            resolver: config.tenants.clone(),
            services,
            assignable: assignable.cloned().collect(),
        }
    }

    /// Returns the tenant of a user and all roles there.
    ///
    /// # Errors
    /// If the app returns an error.
    pub(crate) async fn of(
        &self,
        user_id: &str,
        roles: &[String],
        claims: &serde_json::Map<String, Value>,
    ) -> Result<TenantAndRoles> {
        let mut all = roles.to_vec();
        let Some(resolver) = &self.resolver else {
            return Ok(TenantAndRoles {
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
            return Ok(TenantAndRoles {
                tenant: None,
                roles: all,
            });
        };
        for role in resolver.roles(&cx, &tenant).await? {
            if !self.assignable.contains(&role) {
                let text = format!(
                    "the `TenantResolver` returned the role `{role}`: return only roles in `auth.roles`, \
                     and not `auth.admin.role`"
                );
                return Err(Error::unavailable(text));
            }
            if !all.contains(&role) {
                all.push(role);
            }
        }
        Ok(TenantAndRoles {
            tenant: Some(tenant),
            roles: all,
        })
    }
}
