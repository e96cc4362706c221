//! What most routes have none of: guards, middleware and permissions, between roles and the route's own work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::auth::{GuardCall, GuardCheck, NamedCheck, RouteAuth};
use super::endpoint::{Action, Endpoint};
use super::middleware::{Middleware, Next, RouteCall};
use super::router::App;
use super::{GuardArg, GuardDesc, MiddlewareDesc};
use crate::operation::Subject;
use crate::permission::{Evaluator, Permit};
use crate::{Cx, Result};

/// What the names in policies mean beside those of [`RouteAuth`].
#[derive(Clone, Default)]
pub struct Registry {
    /// Names for `auth` and `guards` beside those of the route auth.
    pub named: BTreeMap<String, NamedCheck>,
    /// Every role there is; empty: nobody has said.
    pub roles: BTreeSet<String>,
    /// Middleware by name.
    pub middleware: BTreeMap<String, Middleware>,
    /// What judges permissions.
    pub evaluator: Option<Arc<dyn Evaluator>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (named, middleware): (Vec<_>, Vec<_>) = (self.named.keys().collect(), self.middleware.keys().collect());
        f.debug_struct("Registry")
            .field("named", &named)
            .field("roles", &self.roles)
            .field("middleware", &middleware)
            .field("evaluator", &self.evaluator.is_some())
            .finish()
    }
}

/// The gates of a mounted route.
pub(super) struct Gates {
    guards: Box<[(GuardCheck, Option<GuardArg>)]>,
    middleware: Box<[Middleware]>,
    /// Who may do with a record what the route does.
    pub(super) permit: Option<Permit>,
}

impl Gates {
    /// `None` for a route without any.
    ///
    /// # Errors
    /// The names that nobody has given a meaning.
    pub(super) fn new(endpoint: &Endpoint, auth: &RouteAuth, registry: &Registry) -> Result<Option<Box<Self>>, Vec<String>> {
        let missing = missing(endpoint, auth, registry);
        if !missing.is_empty() {
            return Err(missing);
        }
        let policy = &endpoint.policy;
        let guards: Box<[_]> = policy.guards.iter().filter_map(|guard| Some((guard_of(auth, guard)?, guard.argument))).collect();
        let middleware: Box<[_]> = policy.middleware.iter().filter_map(|m| registry.find(m)).collect();
        let permit = match (policy.permission, &registry.evaluator, &endpoint.table) {
            (Some(declared), Some(evaluator), Some(table)) => {
                let subject = subject(endpoint);
                Some(Permit::new(declared, table, subject, route(endpoint), Arc::clone(evaluator)).map_err(|what| vec![what])?)
            }
            _ => None,
        };
        let any = !guards.is_empty() || !middleware.is_empty() || permit.is_some();
        Ok(any.then(|| Box::new(Self { guards, middleware, permit })))
    }

    /// Runs the guards.
    ///
    /// # Errors
    /// That of the first guard that does not let the call pass.
    pub(super) fn guard(&self, cx: &Cx) -> Result<()> {
        let Some(actor) = cx.get_actor() else { return Ok(()) };
        self.guards.iter().try_for_each(|(check, argument)| check(&GuardCall { actor, argument: *argument, now: cx.now() }))
    }

    /// Runs the middleware around the rest.
    pub(super) async fn around(
        &self,
        app: &App,
        endpoint: &Endpoint,
        parts: &axum::http::request::Parts,
        cx: &Cx,
        rest: Next<'_>,
    ) -> Result<Response<Body>> {
        let call = RouteCall { cx, parts, path: &endpoint.path, name: &endpoint.name, adapters: &app.adapters };
        self.middleware.iter().rev().fold(rest, |next, middleware| middleware.run(call, next)).await
    }
}

impl Registry {
    fn find(&self, declared: &MiddlewareDesc) -> Option<Middleware> {
        match declared {
            MiddlewareDesc::Function(_, run) => Some(Middleware::new(*run)),
            MiddlewareDesc::Named(name) => self.middleware.get(*name).cloned(),
        }
    }
}

/// What stands behind the name of a guard, when it takes the argument that it is given.
fn guard_of(auth: &RouteAuth, guard: &GuardDesc) -> Option<GuardCheck> {
    match auth.named.get(guard.name)? {
        NamedCheck::Guard(check) => Some(Arc::clone(check)),
        NamedCheck::Actor(check) if guard.argument.is_none() => {
            let check = Arc::clone(check);
            Some(Arc::new(move |call: &GuardCall<'_>| check(call.actor)))
        }
        NamedCheck::Actor(_) => None,
    }
}

/// What the policy of a route names and nobody has registered, in words that follow the name of the route.
pub(crate) fn missing(endpoint: &Endpoint, auth: &RouteAuth, registry: &Registry) -> Vec<String> {
    use crate::app::did_you_mean;
    let policy = &endpoint.policy;
    let mut out = Vec::new();
    for role in policy.roles.iter().filter(|role| !registry.roles.is_empty() && !registry.roles.contains(**role)) {
        let known = registry.roles.iter().map(String::as_str);
        out.push(format!("needs role `{role}`, which no plugin declares{}", did_you_mean(role, known)));
    }
    for guard in policy.guards {
        let name = guard.name;
        match auth.named.get(name) {
            None => {
                let known = auth.named.keys().map(String::as_str);
                out.push(format!("needs guard `{name}`, but no plugin registers it{}", did_you_mean(name, known)));
            }
            Some(NamedCheck::Actor(_)) if guard.argument.is_some() => {
                out.push(format!("gives guard `{name}` an argument, and it takes none"));
            }
            Some(_) => {}
        }
    }
    for middleware in policy.middleware {
        if let MiddlewareDesc::Named(name) = middleware
            && !registry.middleware.contains_key(*name)
        {
            let known = registry.middleware.keys().map(String::as_str);
            out.push(format!("needs middleware `{name}`, but no plugin registers it{}", did_you_mean(name, known)));
        }
    }
    if let Some(permission) = policy.permission {
        let actions = std::iter::once(&permission.requires).chain(permission.or);
        match &registry.evaluator {
            None => out.push(format!("needs permission `{}`, but no plugin installs a permission evaluator", permission.requires)),
            Some(evaluator) => {
                let unknown = actions.filter(|action| !evaluator.knows(action));
                out.extend(unknown.map(|action| format!("needs permission `{action}`, which the permission evaluator does not know")));
            }
        }
    }
    out
}

/// What a route works on, as far as its permission is concerned.
fn subject(endpoint: &Endpoint) -> Subject {
    match endpoint.action {
        Action::Create => Subject::New,
        Action::List => Subject::Records,
        Action::Get | Action::Update | Action::Delete => Subject::Record,
        Action::Operation(spec, _) => spec.subject(),
        Action::Extra(_) | Action::Plugin(_) => Subject::Foreign,
    }
}

/// The name by which statements of the route are guarded.
fn route(endpoint: &Endpoint) -> &'static str {
    match endpoint.action {
        Action::Create => "create",
        Action::List => "list",
        Action::Get => "get",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Operation(spec, _) => spec.name,
        Action::Extra(spec) => spec.name,
        Action::Plugin(desc) => desc.name,
    }
}
