//! Authentication of requests: the interface between HTTP and an authentication plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;

use super::{GuardArg, RequestId};
use crate::resource::BoxFuture;
use crate::{Actor, Error, Result, Timestamp};

/// The result of a resolver: available now, or later.
///
/// A cached token is resolved immediately; a future for each request would cost time on every call.
pub enum Resolution {
    /// Available now.
    Ready(Result<Arc<Actor>>),
    /// Available after an await.
    Later(BoxFuture<'static, Result<Arc<Actor>>>),
}

/// Finds the actor of a request, once per request. An authentication plugin installs a resolver.
///
/// A request without credentials has the anonymous actor, never an error. For an invalid credential
/// the plugin chooses between an error and the anonymous actor.
pub trait ActorResolver: Send + Sync + 'static {
    /// Returns the actor for these headers.
    fn resolve(&self, parts: &Parts, origin: Origin<'_>) -> Resolution;
}

/// The origin of a request, for resolvers that log refused requests.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The request id in the response and in the log.
    pub request_id: &'a RequestId,
    /// The remote address of the connection, which may be a proxy; `None` for calls within the
    /// process.
    pub from: Option<IpAddr>,
}

/// Decides whether an actor may call a route: the check for a name in `auth`. The error becomes the
/// response.
pub type AuthCheck = Arc<dyn Fn(&Actor) -> Result<()> + Send + Sync>;

/// Decides whether an actor has one of the required roles of a route. The error becomes the
/// response.
pub type RoleCheck = Arc<dyn Fn(&Actor, &[&str]) -> Result<()> + Send + Sync>;

/// The input of a guard.
#[derive(Clone, Copy, Debug)]
pub struct GuardInput<'a> {
    /// The caller.
    pub actor: &'a Actor,
    /// The argument in the route's declaration: 300 in `require_step_up(300)`.
    pub argument: Option<GuardArg>,
    /// The instant of the call.
    pub now: Timestamp,
}

/// Decides whether a call is allowed: the check of a guard. The error becomes the response.
pub type GuardCheck = Arc<dyn Fn(&GuardInput<'_>) -> Result<()> + Send + Sync>;

/// Validates the argument that a route gives to a guard, when the app starts. The error describes
/// valid arguments, for example "seconds, 1 or more".
pub type ArgumentCheck =
    Arc<dyn Fn(Option<GuardArg>) -> std::result::Result<(), String> + Send + Sync>;

/// The check for a name in `auth` or `guards`.
#[derive(Clone)]
pub enum NamedCheck {
    /// Checks the actor only: for `auth`, and for `guards` without an argument.
    Actor(AuthCheck),
    /// Checks the call: for `guards`, with arguments that the second function accepts.
    Guard(GuardCheck, ArgumentCheck),
    /// A check that is not available with the settings of the app. The text is the reason. A route
    /// that uses the name is a start-up error.
    Unset(Arc<str>),
}

impl NamedCheck {
    /// Creates a check of the actor.
    pub fn actor(check: impl Fn(&Actor) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::Actor(Arc::new(check))
    }

    /// Creates a guard that accepts any argument, or none.
    pub fn guard(check: impl Fn(&GuardInput<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::Guard(Arc::new(check), Arc::new(|_| Ok(())))
    }

    /// Returns the same guard with a validation of its argument. If a route passes an argument that
    /// `judge` refuses, the app does not start. The error of `judge` describes valid arguments.
    #[must_use]
    pub fn taking(
        self,
        judge: impl Fn(Option<GuardArg>) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        match self {
            Self::Guard(check, _) => Self::Guard(check, Arc::new(judge)),
            // Other checks never accept an argument.
            other => other,
        }
    }

    /// Creates a check for a name that no caller can pass with the settings of the app. `why`
    /// completes the sentence of a start-up error, for example: "which no caller could pass: list
    /// one in `x.y`".
    pub fn unset(why: impl Into<Arc<str>>) -> Self {
        Self::Unset(why.into())
    }
}

impl From<AuthCheck> for NamedCheck {
    fn from(check: AuthCheck) -> Self {
        Self::Actor(check)
    }
}

impl From<GuardCheck> for NamedCheck {
    fn from(check: GuardCheck) -> Self {
        Self::Guard(check, Arc::new(|_| Ok(())))
    }
}

/// The route-auth registry: the checks for `auth`, `roles` and `guards` of policies.
#[derive(Clone)]
pub struct RouteAuth {
    /// `auth = "userAuth"`, the default of every route.
    pub user_auth: AuthCheck,
    /// `roles = [..]`.
    pub require_role: RoleCheck,
    /// Further checks for names in `auth`, and the checks for `guards`.
    pub named: BTreeMap<String, NamedCheck>,
}

impl RouteAuth {
    /// The check for a name in `auth`.
    pub fn check(&self, name: &str) -> Option<&AuthCheck> {
        match self.named.get(name) {
            _ if name == "userAuth" => Some(&self.user_auth),
            Some(NamedCheck::Actor(check)) => Some(check),
            Some(NamedCheck::Guard(..) | NamedCheck::Unset(_)) | None => None,
        }
    }
}

impl Default for RouteAuth {
    /// The default checks: 401 `unauthorized` for an actor without id, 403 `forbidden` if no role
    /// matches.
    fn default() -> Self {
        Self {
            user_auth: Arc::new(|actor| {
                if actor.id.is_some() {
                    Ok(())
                } else {
                    Err(Error::unauthorized())
                }
            }),
            require_role: Arc::new(|actor, roles| {
                if actor.has_any_role(roles) {
                    Ok(())
                } else {
                    Err(Error::forbidden())
                }
            }),
            named: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for RouteAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteAuth")
            .field("named", &self.named.keys())
            .finish_non_exhaustive()
    }
}
