//! Who calls: the seam between HTTP and an authentication plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;

use super::{GuardArg, RequestId};
use crate::resource::BoxFuture;
use crate::{Actor, Error, Result, Timestamp};

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
/// No identity is the anonymous actor, never an error. An unusable credential may be either; that
/// is the plugin's choice.
pub trait ActorResolver: Send + Sync + 'static {
    /// The actor behind these headers.
    fn resolve(&self, parts: &Parts, origin: Origin<'_>) -> Resolution;
}

/// Where a request comes from, for resolvers that write down what they refuse.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The id that it is answered and logged under.
    pub request_id: &'a RequestId,
    /// The other end of the connection, which may be a proxy; `None` within the process.
    pub from: Option<IpAddr>,
}

/// Decides whether an actor may call a route: the meaning of an `auth` name. The error is the
/// answer.
pub type AuthCheck = Arc<dyn Fn(&Actor) -> Result<()> + Send + Sync>;

/// Decides whether an actor holds one of the roles a route asks for. The error is the answer.
pub type RoleCheck = Arc<dyn Fn(&Actor, &[&str]) -> Result<()> + Send + Sync>;

/// A call as a guard sees it.
#[derive(Clone, Copy, Debug)]
pub struct GuardCall<'a> {
    /// Who calls.
    pub actor: &'a Actor,
    /// What the route says in parentheses: 300 in `require_step_up(300)`.
    pub argument: Option<GuardArg>,
    /// The call's instant.
    pub now: Timestamp,
}

/// Decides whether a call may pass: the meaning of a guard. The error is the answer.
pub type GuardCheck = Arc<dyn Fn(&GuardCall<'_>) -> Result<()> + Send + Sync>;

/// Judges what a route gives a guard, when the app starts. The error says what it takes, as in
/// "seconds, 1 or more".
pub type ArgumentCheck =
    Arc<dyn Fn(Option<GuardArg>) -> std::result::Result<(), String> + Send + Sync>;

/// The meaning of a name in `auth` or `guards`.
#[derive(Clone)]
pub enum NamedCheck {
    /// Looks at the actor alone: for `auth`, and for `guards` without an argument.
    Actor(AuthCheck),
    /// Looks at the call: for `guards`, with the arguments that the second one lets pass.
    Guard(GuardCheck, ArgumentCheck),
    /// Means nothing under the settings of the app, for this reason: whoever asks for it is told so
    /// when the app starts.
    Unset(Arc<str>),
}

impl NamedCheck {
    /// A check of the actor.
    pub fn actor(check: impl Fn(&Actor) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::Actor(Arc::new(check))
    }

    /// A guard that takes any argument, or none.
    pub fn guard(check: impl Fn(&GuardCall<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::Guard(Arc::new(check), Arc::new(|_| Ok(())))
    }

    /// The same guard, which takes what this lets pass: a route that gives it anything else is a
    /// start-up error. The error of `judge` says what it takes.
    #[must_use]
    pub fn taking(
        self,
        judge: impl Fn(Option<GuardArg>) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        match self {
            Self::Guard(check, _) => Self::Guard(check, Arc::new(judge)),
            // These take none in any case.
            other => other,
        }
    }

    /// A name that means nothing as the app is set up. `why` follows what asks for it: "which
    /// nobody could pass: list one in `x.y`".
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

/// The route-auth registry: what the `auth`, `roles` and `guards` of a policy mean.
#[derive(Clone)]
pub struct RouteAuth {
    /// `auth = "userAuth"`, the default of every route.
    pub user_auth: AuthCheck,
    /// `roles = [..]`.
    pub require_role: RoleCheck,
    /// Further names for `auth`, and those of `guards`.
    pub named: BTreeMap<String, NamedCheck>,
}

impl RouteAuth {
    /// The check behind an `auth` name.
    pub fn check(&self, name: &str) -> Option<&AuthCheck> {
        match self.named.get(name) {
            _ if name == "userAuth" => Some(&self.user_auth),
            Some(NamedCheck::Actor(check)) => Some(check),
            Some(NamedCheck::Guard(..) | NamedCheck::Unset(_)) | None => None,
        }
    }
}

impl Default for RouteAuth {
    /// Linchpin's own checks: 401 `unauthorized` for an actor without id, 403 `forbidden` when no
    /// role matches.
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
