//! Optional per-route guards, middleware and permissions. They run after roles and before the body
//! is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::Response;

use super::auth::{GuardCheck, GuardInput, NamedCheck, RouteAuth};
use super::context::ContextProviders;
use super::endpoint::{Action, Endpoint};
use super::middleware::{Middleware, MiddlewareFn, Next, RouteCall};
use super::related::RelatedRequest;
use super::request::Request;
use super::{GuardArg, GuardDesc, MiddlewareDesc};
use crate::entity::FieldDesc;
use crate::operation::Subject;
use crate::operation::permit::Permit;
use crate::permission::Evaluator;
use crate::suggest::did_you_mean;
use crate::{Cx, Error, Result};

/// The names that policies may use, in addition to those of [`RouteAuth`].
#[derive(Clone, Default)]
pub struct Registry {
    /// Names for `auth` and `guards`, in addition to those of the route auth.
    pub named: BTreeMap<String, NamedCheck>,
    /// All roles; `None` if no plugin declares roles.
    pub roles: Option<BTreeSet<String>>,
    /// The name of the setting that lists the roles, for error messages; `None` if there is no such
    /// setting.
    pub roles_at: Option<String>,
    /// Middleware by name.
    pub middleware: BTreeMap<String, Middleware>,
    /// The evaluator of permissions.
    pub evaluator: Option<Arc<dyn Evaluator>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (named, middleware): (Vec<_>, Vec<_>) = (
            self.named.keys().collect(),
            self.middleware.keys().collect(),
        );
        f.debug_struct("Registry")
            .field("named", &named)
            .field("roles", &self.roles)
            .field("roles_at", &self.roles_at)
            .field("middleware", &middleware)
            .field("evaluator", &self.evaluator.is_some())
            .finish()
    }
}

/// Guards, middleware, permission and context values of a mounted route.
#[derive(Default)]
pub(super) struct RouteChecks {
    guards: Box<[(GuardCheck, Option<GuardArg>)]>,
    middleware: Box<[Middleware]>,
    /// The permission that the route needs on a record.
    pub(super) permit: Option<Permit>,
    /// Providers of context values other than the actor.
    pub(super) context: Option<Arc<ContextProviders>>,
    /// Whether the response depends on those values.
    pub(super) varies: bool,
    /// Members that only the first response contains.
    once: &'static [FieldDesc],
}

impl RouteChecks {
    /// The checks of a route; `None` if it has none.
    ///
    /// # Errors
    /// One sentence per name that is not registered.
    pub(super) fn new(
        endpoint: &Endpoint,
        auth: &RouteAuth,
        registry: &Registry,
    ) -> Result<Option<Box<Self>>, Vec<String>> {
        let missing = missing(endpoint, auth, registry);
        if !missing.is_empty() {
            return Err(missing);
        }
        let policy = &endpoint.policy;
        let check = |guard: &GuardDesc| {
            Some((
                guard_of(auth, guard.name, guard.argument).ok()?,
                guard.argument,
            ))
        };
        let guards: Box<[_]> = policy.guards.iter().filter_map(check).collect();
        let middleware: Box<[_]> = endpoint
            .middleware()
            .filter_map(|m| registry.find(m))
            .collect();
        let permit = match (policy.permission, &registry.evaluator, &endpoint.table) {
            (Some(declared), Some(evaluator), Some(table)) => {
                let subject = subject(endpoint);
                Some(
                    Permit::new(
                        declared,
                        table,
                        subject,
                        route(endpoint),
                        Arc::clone(evaluator),
                    )
                    .map_err(|what| vec![what])?,
                )
            }
            _ => None,
        };
        let once = policy.once;
        let has_checks =
            !guards.is_empty() || !middleware.is_empty() || permit.is_some() || !once.is_empty();
        Ok(has_checks.then(|| {
            Box::new(Self {
                guards,
                middleware,
                permit,
                once,
                ..Self::default()
            })
        }))
    }

    /// Runs the guards.
    ///
    /// # Errors
    /// The error of the first guard that refuses.
    pub(super) fn guard(&self, cx: &Cx) -> Result<()> {
        let Some(actor) = cx.get_actor() else {
            return Ok(());
        };
        self.guards.iter().try_for_each(|(check, argument)| {
            check(&GuardInput {
                actor,
                argument: *argument,
                now: cx.now(),
            })
        })
    }

    /// The call with the context values of its request, and with storage for the one-time members
    /// of its response.
    ///
    /// # Errors
    /// The errors of the providers.
    pub(super) async fn with_context(
        &self,
        parts: &axum::http::request::Parts,
        cx: Cx,
    ) -> Result<Cx> {
        let cx = if self.once.is_empty() {
            cx
        } else {
            cx.answering_once(self.once)
        };
        match &self.context {
            None => Ok(cx),
            Some(context) => context.with_provided_values(parts, cx).await,
        }
    }

    /// Removes the middleware that `outer` also has. `outer` is a route that reads records of this
    /// route as related records, and it already runs that middleware.
    pub(super) fn leave_out(&mut self, route: &Endpoint, outer: &Endpoint) {
        let known: Vec<&'static MiddlewareDesc> = outer.middleware().collect();
        let further = route
            .middleware()
            .map(|declared| !known.iter().any(|&other| same(other, declared)));
        let all = std::mem::take(&mut self.middleware).into_iter();
        self.middleware = all
            .zip(further)
            .filter_map(|(run, further)| further.then_some(run))
            .collect();
    }

    /// Whether guards, middleware or a permission restrict the callers that may read records of
    /// this route through another route.
    pub(super) fn restrict_readers(&self) -> bool {
        !self.guards.is_empty() || !self.middleware.is_empty() || self.permit.is_some()
    }

    /// Runs the middleware around an empty response, for a call that reads records of this route
    /// through another route. Only the status of the resulting response matters.
    ///
    /// # Errors
    /// The errors of the middleware; `forbidden` if it responds itself, or with a status other than
    /// 2xx.
    pub(super) async fn pass(
        &self,
        route: &Endpoint,
        related_request: &RelatedRequest<'_>,
        cx: &Cx,
    ) -> Result<()> {
        if self.middleware.is_empty() {
            return Ok(());
        }
        let passed = AtomicBool::new(false);
        let rest = Box::pin(async {
            passed.store(true, Ordering::Relaxed);
            Ok(Response::new(Body::empty()))
        });
        let call = RouteCall {
            cx,
            parts: related_request.parts,
            path: &route.path,
            name: &route.name,
            adapters: related_request.adapters,
        };
        let answer = self.run(call, rest).await?;
        if passed.load(Ordering::Relaxed) && answer.status().is_success() {
            Ok(())
        } else {
            Err(Error::forbidden())
        }
    }

    /// Runs the middleware around the rest of the route.
    ///
    /// # Errors
    /// The errors of the middleware and of the route.
    pub(super) async fn around(
        &self,
        request: &Request<'_>,
        cx: &Cx,
        rest: Next<'_>,
    ) -> Result<Response<Body>> {
        let endpoint = &request.mounted.endpoint;
        let call = RouteCall {
            cx,
            parts: request.parts,
            path: &endpoint.path,
            name: &endpoint.name,
            adapters: &request.app.adapters,
        };
        self.run(call, rest).await
    }

    fn run<'a>(&'a self, call: RouteCall<'a>, rest: Next<'a>) -> Next<'a> {
        self.middleware
            .iter()
            .rev()
            .fold(rest, |next, middleware| middleware.run(call, next))
    }
}

impl Registry {
    /// The roles that no plugin declares, if plugins declare roles. Each text completes a sentence
    /// that begins with the part of the app that requires the role, such as a route or a path
    /// pattern.
    pub(super) fn unknown_roles<'a>(
        &'a self,
        roles: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = String> {
        let known = || self.roles.iter().flatten().map(String::as_str);
        let unknown =
            roles.filter(|role| self.roles.as_ref().is_some_and(|all| !all.contains(*role)));
        let add = self
            .roles_at
            .as_ref()
            .map_or_else(String::new, |at| format!(": list it in `{at}`"));
        unknown.map(move |role| {
            format!(
                "needs role `{role}`, which no plugin declares{add}{}",
                did_you_mean(role, known())
            )
        })
    }

    fn find(&self, declared: &MiddlewareDesc) -> Option<Middleware> {
        match declared {
            MiddlewareDesc::Function(_, run) => run
                .downcast_ref::<MiddlewareFn>()
                .map(|run| Middleware::new(*run)),
            MiddlewareDesc::Named(name) => self.middleware.get(*name).cloned(),
        }
    }
}

/// The check of a registered guard.
///
/// # Errors
/// If the guard is not registered, or does not accept the argument. The text completes a sentence
/// that begins with the part of the app that requires the guard, such as a route or a path pattern.
pub(super) fn guard_of(
    auth: &RouteAuth,
    name: &str,
    argument: Option<GuardArg>,
) -> Result<GuardCheck, String> {
    match auth.named.get(name) {
        Some(NamedCheck::Guard(check, judge)) => match (judge(argument), argument) {
            (Ok(()), _) => Ok(Arc::clone(check)),
            (Err(takes), Some(argument)) => Err(format!(
                "gives guard `{name}` the argument {}, and it takes {takes}",
                argument.to_json()
            )),
            (Err(takes), None) => Err(format!(
                "uses guard `{name}` without an argument; it needs {takes}"
            )),
        },
        Some(NamedCheck::Unset(why)) => Err(format!("needs guard `{name}`, {why}")),
        Some(NamedCheck::Actor(check)) if argument.is_none() => {
            let check = Arc::clone(check);
            Ok(Arc::new(move |call: &GuardInput<'_>| check(call.actor)))
        }
        Some(NamedCheck::Actor(_)) => Err(format!(
            "gives guard `{name}` an argument, and it takes none"
        )),
        None => {
            let known = auth.named.keys().map(String::as_str);
            Err(format!(
                "needs guard `{name}`, but no plugin registers it{}",
                did_you_mean(name, known)
            ))
        }
    }
}

/// The names in the policy of a route that are not registered. Each text completes a sentence that
/// begins with the name of the route.
pub(crate) fn missing(endpoint: &Endpoint, auth: &RouteAuth, registry: &Registry) -> Vec<String> {
    let policy = &endpoint.policy;
    let mut out: Vec<String> = registry
        .unknown_roles(policy.roles.iter().copied())
        .collect();
    out.extend(
        policy
            .guards
            .iter()
            .filter_map(|guard| guard_of(auth, guard.name, guard.argument).err()),
    );
    for middleware in endpoint.middleware() {
        match middleware {
            MiddlewareDesc::Named(name) if !registry.middleware.contains_key(*name) => {
                let known = registry.middleware.keys().map(String::as_str);
                out.push(format!(
                    "needs middleware `{name}`, but no plugin registers it{}",
                    did_you_mean(name, known)
                ));
            }
            MiddlewareDesc::Function(name, run) if !run.is::<MiddlewareFn>() => {
                out.push(format!("has middleware `{name}`, which is a `MiddlewareFn` of another version of linchpin"));
            }
            MiddlewareDesc::Named(_) | MiddlewareDesc::Function(..) => {}
        }
    }
    if let Some(permission) = policy.permission {
        let actions = std::iter::once(&permission.requires).chain(permission.or);
        match &registry.evaluator {
            None => out.push(format!(
                "needs permission `{}`, but no plugin installs a permission evaluator",
                permission.requires
            )),
            Some(evaluator) => {
                let unknown = actions.filter(|action| !evaluator.knows(action));
                if let Some(field) = permission.rank.filter(|_| !evaluator.ranks()) {
                    out.push(format!("compares the caller with `{field}`, and the permission evaluator does not implement `rank`"));
                }
                out.extend(unknown.map(|action| {
                    format!(
                        "needs permission `{action}`, which the permission evaluator does not know"
                    )
                }));
            }
        }
    }
    out
}

/// Whether two declarations name the same middleware. Two functions are known to be the same only
/// if they come from one declaration of a package.
fn same(one: &'static MiddlewareDesc, other: &'static MiddlewareDesc) -> bool {
    match (one, other) {
        (MiddlewareDesc::Named(one), MiddlewareDesc::Named(other)) => one == other,
        _ => std::ptr::eq(one, other),
    }
}

/// The records that the permission of a route applies to.
fn subject(endpoint: &Endpoint) -> Subject {
    match endpoint.action {
        Action::Create => Subject::New,
        Action::List => Subject::Records,
        Action::Get | Action::Update | Action::Delete => Subject::Record,
        Action::Operation(spec, _) => spec.subject(),
        Action::Extra(_) | Action::Plugin(_) => Subject::Foreign,
    }
}

/// The route name of the route's statements, by which they get their row-level guards.
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
