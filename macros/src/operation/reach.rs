//! Checks an operation against the scopes and the tenant of its entity: public routes, `apply_to`
//! and `unscoped`.

use super::args::Args;
use super::item::Declared;
use super::kinds::{Plan, Shape};
use super::path::Method;
use crate::diagnostics::Diagnostics;
use crate::entity::{self, EntityModel, Route};
use crate::policy::{Auth, Policy};

/// Checks an operation against the visibility of its entity.
pub(super) fn check(
    args: &Args,
    plan: &Plan,
    name: &str,
    declared: &Declared,
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    if model.visibility.has_unread_options {
        // The macro of the entity has reported an error in its visibility options. More errors here
        // would only repeat it.
        return;
    }
    let scopes = &model.visibility.scopes;
    if let Some((key, _)) = args.unscoped.as_ref().filter(|_| scopes.is_empty()) {
        d.error(
            key,
            format!("`unscoped` has no effect: `{}` has no scope", model.name),
        )
        .help("leave the option out");
    }
    let unscoped = args.unscoped.is_some();
    let inherited = &args.route.policy;
    // An operation without a route has no policy, but the scopes still apply to its writes.
    let mut no_route = Policy::default();
    no_route.disabled = true;
    if plan.parts.is_empty() {
        let policy = if let Shape::Adapter = plan.shape {
            &no_route
        } else {
            inherited
        };
        check_route(
            &Route {
                name,
                reads: plan.reads(),
                unscoped,
            },
            &[policy],
            declared,
            model,
            d,
        );
    }
    // A collection has one route per method.
    for part in &plan.parts {
        let policies: Vec<&Policy> = part.policy.iter().chain([inherited]).collect();
        check_route(
            &Route {
                name,
                reads: part.method == Method::Get,
                unscoped,
            },
            &policies,
            declared,
            model,
            d,
        );
    }
}

/// Checks a route. For each key, the first of `policies` that sets it applies.
fn check_route(
    route: &Route<'_>,
    policies: &[&Policy],
    declared: &Declared,
    model: &EntityModel,
    d: &mut Diagnostics,
) {
    let name = route.name;
    let public = || {
        entity::why_not_public(model, route)
            .filter(|_| !policies.iter().any(|policy| policy.disabled))
    };
    match (
        policies.iter().find_map(|policy| policy.auth.as_ref()),
        &model.defaults.auth,
    ) {
        (Some(Auth::None(word)), _) => {
            if let Some((message, help)) = public() {
                d.error(word, message).help(help);
            }
        }
        (None, Some(Auth::None(_))) if !entity::reports_public_defaults(model) => {
            if let Some((message, _)) = public() {
                d.error(&declared.ident, message)
                    .help("`route(auth = \"userAuth\")`");
            }
        }
        _ => {}
    }
    if route.reads || route.unscoped {
        return;
    }
    let scopes = &model.visibility.scopes;
    for scope in scopes.iter().filter(|scope| {
        scope.applies_to_route("list") && scope.unscoped.is_none() && !scope.applies_to_route(name)
    }) {
        let field = &model.fields[scope.field].name;
        d.error(
            &declared.ident,
            format!("`{field}` is left out of scope `{name}`"),
        )
        .help(format!(
            "add `{name}` to `apply_to`, or give the reason: `unscoped = \"reason\"`"
        ));
    }
}
