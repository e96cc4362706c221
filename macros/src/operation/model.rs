//! An operation, resolved: everything the expansion needs, with every rule checked.

use proc_macro2::{Ident, TokenStream};

use super::args::Args;
use super::item::Declared;
use super::kinds::{self, Plan, Returns};
use super::path::{Method, Route, RouteArgs, Segment};
use super::{capability, check, place, reach};
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::expr::{Scope, Sibling};
use crate::policy::{audit, event, idempotent, narrow, once, permission};

/// An operation.
pub(crate) struct Model<'a> {
    pub(crate) declared: &'a Declared,
    pub(crate) entity: &'a EntityModel,
    /// `by_slug`.
    pub(crate) name: String,
    pub(crate) route: RouteArgs,
    pub(crate) plan: Plan,
    /// One, or the query and path form of a lookup or exists.
    pub(crate) routes: Vec<Route>,
    pub(crate) scope: Parts,
    pub(crate) unscoped: Option<syn::LitStr>,
    pub(crate) siblings: &'a [Sibling],
}

/// What resolving left behind.
pub(crate) struct Parts {
    pub(crate) params: Vec<crate::expr::Param>,
    /// For each parameter the entity and the position of its field, at the user's token.
    pub(crate) positions: Vec<TokenStream>,
    pub(crate) asserts: Vec<TokenStream>,
    /// Fields that it names, as written.
    pub(crate) named: Vec<Ident>,
    /// Values of the context that plugins provide.
    pub(crate) context: Vec<syn::Path>,
}

impl<'a> Model<'a> {
    /// Reads, resolves and checks. `None` when not even the kind's shape is known; all problems are in `d`.
    pub(crate) fn parse(
        declared: &'a Declared,
        args: TokenStream,
        entity: &'a EntityModel,
        siblings: &'a [Sibling],
        d: &mut Diagnostics,
    ) -> Option<Self> {
        let args = Args::parse(args, d);
        let (name, kebab) = check::name_of(&declared.ident, d);
        if !name.starts_with(|c: char| c.is_alphabetic()) {
            // It cannot be a method either; that has been reported.
            return None;
        }
        let (kind, at) = kinds::find(&args, declared, d)?;
        args.check(kind.name(), kind.options(), kind.required(), kind.later(), &at, d);
        capability::check(kind, &args, &name, entity, &at, d);
        kinds::check_name(kind, &args, &declared.ident, &name, entity, d);
        let mut scope = Scope::new(entity, &declared.entity, siblings, d);
        // Without a route, code may call it for the system, which sees what callers do not.
        scope.callers = !args.route.policy.disabled;
        let plan = kind.resolve(&args, &name, &mut scope);
        if kind.name() != "collection" {
            args.route.refuse_others(scope.d);
        }
        args.route.moved.not_below_itself(&entity.path, scope.d);
        for part in plan.iter().flat_map(|plan| &plan.parts) {
            part.moved.not_below_itself(&entity.path, scope.d);
        }
        let routes = plan.as_ref().map(|plan| match &plan.returns {
            Returns::Custom(made) => made.routes.clone(),
            _ if plan.parts.is_empty() => place::routes(plan, &args.route, &kebab, &mut scope),
            _ => place::parts(plan, &name, &kebab, scope.d),
        });
        if let Some(plan) = &plan {
            if let Some((key, _)) = &args.route.policy.description {
                scope.d.error(key, "the description of an operation is its doc comment").help("`/// ..` above the const");
            }
            reach::check(&args, plan, &name, declared, entity, scope.d);
            let answers = plan.parts.is_empty() && plan.returns.is_record();
            let policies = std::iter::once(&args.route.policy).chain(plan.parts.iter().filter_map(|part| part.policy.as_ref()));
            let by_id = || routes.iter().flatten().any(|(_, segments)| segments.contains(&Segment::Param("id".to_owned())));
            let records = match kind.name() {
                "derive" | "computed_aggregate" => false,
                "custom" => by_id(),
                _ => true,
            };
            let one = plan.parts.is_empty() && !plan.reads() && plan.returns.is_one_record();
            for policy in policies {
                narrow::check_operation(policy, answers, entity, scope.d);
                once::check_operation(policy, one, kind.name(), entity, scope.d);
                let many = matches!(kind.name(), "lookup" | "exists" | "search" | "aggregate" | "batch" | "consume");
                permission::check_operation(policy, records, !many, entity, scope.d);
                event::check_operation(policy, kind.name(), entity, scope.d);
            }
            if routes.as_ref().is_some_and(|routes| !routes.is_empty() && routes.iter().all(|(method, _)| *method == Method::Get)) {
                args.route.policy.refuse_max_body("a GET route", scope.d);
            }
            let reading = plan.parts.iter().filter(|part| part.reads()).filter_map(|part| part.policy.as_ref());
            for policy in reading.chain((plan.parts.is_empty() && plan.reads()).then_some(&args.route.policy)) {
                idempotent::refuse(policy, "an operation that only reads", scope.d);
                audit::refuse(policy, "an operation that only reads", scope.d);
            }
        }
        let params: Vec<crate::expr::Param> = scope.params.iter().cloned().collect();
        let position = |p: &crate::expr::Param| {
            let at = quote::ToTokens::to_token_stream(&p.ident);
            scope.within(p.owner, |scope| crate::expr::position(scope, p.field, &at))
        };
        let positions = params.iter().map(position).collect();
        let scope = Parts { params, positions, asserts: scope.asserts, named: scope.named, context: scope.context };
        let unscoped = args.unscoped.map(|(_, reason)| reason);
        Some(Self { declared, entity, name, route: args.route, plan: plan?, routes: routes?, scope, unscoped, siblings })
    }
}
