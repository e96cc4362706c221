//! The model of an operation: its declaration, resolved against its entity.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::LitStr;

use super::args::Args;
use super::item::Declared;
use super::kinds::{self, Input, Kind, KindModel, Plan, Returns};
use super::path::Route;
use super::{check, place};
use crate::diagnostics::Diagnostics;
use crate::expr::{Param, Scope};

/// An operation as written: its options have been read, and its kind is known.
pub(crate) struct Parsed<'a> {
    pub(crate) declared: &'a Declared,
    pub(crate) args: Args,
    /// `by_slug`.
    pub(crate) name: String,
    /// `by-slug`, the segment of its path.
    kebab: String,
    pub(crate) kind: &'static Kind,
    /// The kind as written.
    pub(crate) at: LitStr,
}

/// A resolved operation.
pub(crate) struct Model<'a> {
    pub(crate) parsed: Parsed<'a>,
    /// The resolved options of its kind.
    pub(crate) body: Box<dyn KindModel>,
    /// The routes and the response. `None` if they could not be resolved, which has been reported.
    pub(crate) plan: Option<Plan>,
    /// The routes: one for each method of a collection, and at most one for other kinds. A lookup
    /// or exists may have two: with parameters in the query, and with parameters in the path.
    pub(crate) routes: Vec<Route>,
}

/// The results that a [`Scope`] has collected while the operation was resolved and checked.
pub(crate) struct ScopeResults {
    pub(crate) params: Vec<Param>,
    /// The entity and the field position of each parameter, with the span of the app's token.
    pub(crate) positions: Vec<TokenStream>,
    pub(crate) asserts: Vec<TokenStream>,
    /// The fields that the declaration names, as written.
    pub(crate) named: Vec<Ident>,
    /// The context values that plugins provide.
    pub(crate) context: Vec<syn::Path>,
}

impl<'a> Parsed<'a> {
    /// Reads the options. `None` if the kind is unknown or the name is not a valid method name; all
    /// problems are in `d`.
    pub(crate) fn read(
        declared: &'a Declared,
        args: TokenStream,
        d: &mut Diagnostics,
    ) -> Option<Self> {
        let args = Args::parse(args, d);
        let (name, kebab) = check::name_of(&declared.ident, d);
        if !name.starts_with(|c: char| c.is_alphabetic()) {
            // The name is not a valid method name, which has been reported.
            return None;
        }
        let (kind, at) = kinds::find(&args, declared, d)?;
        args.check(
            kind.facts.name,
            kind.options,
            kind.required,
            kind.planned,
            &at,
            d,
        );
        Some(Self {
            declared,
            args,
            name,
            kebab,
            kind,
            at,
        })
    }

    /// Returns the input of its kind.
    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            args: &self.args,
            name: &self.name,
            ident: &self.declared.ident,
        }
    }
}

impl<'a> Model<'a> {
    /// Resolves an operation against its entity.
    pub(crate) fn resolve(parsed: Parsed<'a>, scope: &mut Scope<'_>) -> Self {
        let args = &parsed.args;
        // An operation without a route may be called by code on behalf of the system, to which
        // `visible` does not apply.
        scope.for_callers = !args.route.policy.disabled;
        let body = (parsed.kind.model)(&parsed.input(), scope);
        let plan = body.plan(scope);
        let routes = plan.as_ref().map(|plan| match &plan.returns {
            Returns::Custom(expansion) => expansion.routes.clone(),
            _ if plan.parts.is_empty() => place::routes(plan, &args.route, &parsed.kebab, scope),
            _ => place::parts(plan, &parsed.name, &parsed.kebab, scope.d),
        });
        Self {
            parsed,
            body,
            plan,
            routes: routes.unwrap_or_default(),
        }
    }
}

impl ScopeResults {
    /// Returns the results that the scope has collected.
    pub(crate) fn of(mut scope: Scope<'_>) -> Self {
        let params: Vec<Param> = scope.params.iter().cloned().collect();
        let position = |p: &Param| {
            let at = p.ident.to_token_stream();
            scope.within(p.owner, |scope| crate::expr::position(scope, p.field, &at))
        };
        let positions = params.iter().map(position).collect();
        Self {
            params,
            positions,
            asserts: scope.asserts,
            named: scope.named,
            context: scope.context,
        }
    }
}
