//! Who calls: the seam between HTTP and an authentication plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;

use crate::resource::BoxFuture;
use crate::{Actor, Error, Result};

/// What a resolver found out: at once, or later.
///
/// A cached token is known at once, and a future for each request would be paid for every time.
pub enum Resolution {
    /// Known now.
    Ready(Result<Arc<Actor>>),
    /// To be awaited.
    Later(BoxFuture<'static, Result<Arc<Actor>>>),
}

/// Finds the actor of a request, once per request. An authentication plugin installs one.
///
/// No identity is the anonymous actor, never an error. An unusable credential may be either; that is the plugin's choice.
pub trait ActorResolver: Send + Sync + 'static {
    /// The actor behind these headers.
    fn resolve(&self, parts: &Parts) -> Resolution;
}

/// Decides whether an actor may call a route: the meaning of an `auth` name. The error is the answer.
pub type AuthCheck = Arc<dyn Fn(&Actor) -> Result<()> + Send + Sync>;

/// Decides whether an actor holds one of the roles a route asks for. The error is the answer.
pub type RoleCheck = Arc<dyn Fn(&Actor, &[&'static str]) -> Result<()> + Send + Sync>;

/// The route-auth registry: what the `auth` and `roles` of a policy mean.
#[derive(Clone)]
pub struct RouteAuth {
    /// `auth = "userAuth"`, the default of every route.
    pub user_auth: AuthCheck,
    /// `roles = [..]`.
    pub require_role: RoleCheck,
    /// Further names.
    pub named: BTreeMap<String, AuthCheck>,
}

impl RouteAuth {
    /// The check behind an `auth` name.
    pub fn check(&self, name: &str) -> Option<&AuthCheck> {
        if name == "userAuth" { Some(&self.user_auth) } else { self.named.get(name) }
    }
}

impl Default for RouteAuth {
    /// Linchpin's own checks: 401 `unauthorized` for an actor without id, 403 `forbidden` when no role matches.
    fn default() -> Self {
        Self {
            user_auth: Arc::new(|actor| if actor.id.is_some() { Ok(()) } else { Err(Error::unauthorized()) }),
            require_role: Arc::new(|actor, roles| if actor.has_any_role(roles) { Ok(()) } else { Err(Error::forbidden()) }),
            named: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for RouteAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteAuth").field("named", &self.named.keys()).finish_non_exhaustive()
    }
}
