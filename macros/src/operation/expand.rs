//! The expansion: a static descriptor, and a method of the adapter. It cannot fail, because its
//! input is checked.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Ident, LitStr};

use super::item::{Declared, attribute_tokens};
use super::kinds::custom::Output;
use super::kinds::{KindModel, Numbers, Plan, Returns};
use super::methods;
use super::model::{Model, ScopeResults};
use super::path::{Route, RouteArgs, Segment, path_text};
use crate::entity::{EntityModel, Kind};
use crate::expr::{Param, Place, Sibling, in_same_module};
use crate::gather::Entities;
use crate::lints;
use crate::names;
use crate::policy::Policy;

/// The input of the expansion.
pub(super) struct Expansion<'a> {
    pub(super) declared: &'a Declared,
    pub(super) entity: &'a EntityModel,
    pub(super) siblings: &'a [Sibling],
    /// `by_slug`.
    pub(super) name: &'a str,
    pub(super) route: &'a RouteArgs,
    pub(super) body: &'a dyn KindModel,
    pub(super) plan: &'a Plan,
    pub(super) routes: &'a [Route],
    pub(super) scope: &'a ScopeResults,
    pub(super) unscoped: Option<&'a LitStr>,
}

impl<'a> Expansion<'a> {
    /// `None` if too little of the operation could be resolved; the error has been reported.
    pub(super) fn of(
        model: &'a Model<'a>,
        entities: &'a Entities,
        scope: &'a ScopeResults,
    ) -> Option<Self> {
        let (parsed, plan) = (&model.parsed, model.plan.as_ref()?);
        Some(Self {
            declared: parsed.declared,
            entity: &entities.own,
            siblings: &entities.siblings,
            name: &parsed.name,
            route: &parsed.args.route,
            body: &*model.body,
            plan,
            routes: &model.routes,
            scope,
            unscoped: parsed.args.unscoped.as_ref().map(|(_, reason)| reason),
        })
    }
}

/// Returns a const without an effect, for a declaration whose errors are reported. The const exists
/// so that code that uses it causes no further errors.
pub(super) fn poisoned(declared: &Declared) -> TokenStream {
    let Declared {
        attrs,
        vis,
        ident,
        ty,
        ..
    } = declared;
    let attrs = attribute_tokens(attrs);
    quote_spanned!(name_span(ident)=> #attrs #vis const #ident: #ty = <#ty>::poisoned();)
}

/// Returns a const without an effect, with the parts that rustc can check. So errors in values and
/// types are reported together with the errors of the macro.
fn inert(model: &Expansion<'_>) -> TokenStream {
    let Declared {
        attrs,
        vis,
        ident,
        ty,
        ..
    } = model.declared;
    let (krate, attrs, asserts) = (
        &model.entity.krate,
        attribute_tokens(attrs),
        &model.scope.asserts,
    );
    let kind = model.plan.parts.is_empty().then(|| model.body.expand());
    let statics = match &model.plan.returns {
        Returns::Custom(expansion) => Some(&expansion.statics),
        _ => None,
    };
    quote_spanned! {name_span(ident)=>
        #attrs
        #vis const #ident: #ty = {
            #[allow(unused_imports)] // unused if all parts below are empty
            use #krate::__private as __lp;
            #(#asserts)*
            #statics
            let _ = &(#kind);
            <#ty>::poisoned()
        };
    }
}

/// Returns the const and the adapter method. If the declaration is not `sound`, the const has no
/// effect; the method is kept, so that code that calls it causes no further errors.
pub(super) fn expand(model: &Expansion<'_>, sound: bool) -> TokenStream {
    let constant = if sound { constant(model) } else { inert(model) };
    let method = crate::SERVER.then(|| {
        if model.plan.parts.is_empty() {
            method(model)
        } else {
            methods::methods(model)
        }
    });
    quote!(#constant #method)
}

fn constant(model: &Expansion<'_>) -> TokenStream {
    let Declared {
        attrs,
        vis,
        ends: (first, last),
        ident,
        ty,
        entity,
        ..
    } = model.declared;
    let (krate, attrs, name, doc) = (
        &model.entity.krate,
        attribute_tokens(attrs),
        &model.name,
        model.declared.doc(),
    );
    let (asserts, kind, policy) = (
        &model.scope.asserts,
        model.body.expand(),
        &model.route.policy,
    );
    let (statics, params) = match &model.plan.returns {
        Returns::Custom(expansion) => (Some(&expansion.statics), expansion.params.clone()),
        _ => (
            None,
            model.scope.params.iter().map(|p| param(p, model)).collect(),
        ),
    };
    let params = (!params.is_empty()).then(|| quote!(.params(&[#(#params),*])));
    let routes = model
        .routes
        .iter()
        .map(|(method, segments)| quote!(#method(&[#(#segments),*])));
    let routes = (!model.routes.is_empty()).then(|| quote!(.routes(&[#(#routes),*])));
    let policy = self::policy(policy, &entity.to_token_stream());
    let (parts, named) = if model.plan.parts.is_empty() {
        Default::default()
    } else {
        methods::parts(model)
    };
    let unscoped = model.unscoped.map(|reason| quote!(.unscoped(#reason)));
    let context = &model.scope.context;
    let context = (!context.is_empty())
        .then(|| quote!(.context(&[#(<#context as __lp::ContextValue>::DESC),*])));
    let doc = (!doc.is_empty()).then(|| quote!(.doc(#doc)));
    quote_spanned! {name_span(ident)=>
        #attrs
        #vis #first #ident: #ty = {
            use #krate::__private as __lp;
            #(#asserts)*
            #parts
            #statics
            static SPEC: __lp::OpSpec = __lp::OpSpec::new(#name, &#kind)
                #params
                #routes
                #named
                #policy
                #unscoped
                #context
                #doc;
            __lp::Operation::new(&SPEC)
        } #last
    }
}

/// Returns the policy, unless it is empty.
pub(super) fn policy(policy: &Policy, entity: &TokenStream) -> Option<TokenStream> {
    (!policy.is_inherit()).then(|| {
        let policy = policy.tokens(entity);
        quote!(.policy(#policy))
    })
}

fn param(param: &Param, model: &Expansion<'_>) -> TokenStream {
    let owner = param.owner.and_then(|owner| model.siblings.get(owner));
    let (wire, field) = (
        &param.wire,
        owner
            .map_or(model.entity, |sibling| &sibling.model)
            .number(param.field),
    );
    let place = match param.place {
        Place::Id => quote!(in_id),
        Place::Segment => quote!(in_segment),
        Place::Query => quote!(in_query),
        Place::Body => quote!(in_body),
    };
    let default = param.default.as_ref().map(|(value, _)| quote!(.or(#value)));
    let optional = (!param.required && default.is_none()).then(|| quote!(.optional()));
    let nullable = param.nullable.then(|| quote!(.nullable()));
    let list = param.list.then(|| quote!(.list()));
    let element = param.element.then(|| quote!(.element()));
    let of = owner.map(|sibling| {
        let path = &sibling.path;
        quote!(.of(<#path as __lp::Entity>::DESC))
    });
    quote!(__lp::#place(#wire, #field) #of #optional #default #nullable #list #element)
}

/// Returns the attributes of an impl of methods: the conditions and the lints of the const.
pub(super) fn impl_attributes(model: &Expansion<'_>) -> TokenStream {
    let (own, entity) = (&model.declared.attrs, &model.entity.item);
    let lints = lints::allowed(
        own,
        entity
            .attrs
            .iter()
            .chain(entity.fields.iter().flat_map(|field| &field.attrs)),
    );
    let conditions = lints::conditions(own);
    quote!(#conditions #lints)
}

fn method(model: &Expansion<'_>) -> TokenStream {
    let Declared {
        attrs,
        vis,
        ident,
        entity,
        ..
    } = model.declared;
    let krate = &model.entity.krate;
    let name = names::ident(model.name, ident.span());
    let adapter = &model.entity.generated.adapter;
    let adapter = in_same_module(entity, &quote!(#adapter));
    let (names, types, args) = match &model.plan.returns {
        Returns::Custom(expansion) => split(&expansion.arguments),
        _ => arguments(model),
    };
    // The function that reads the outcome, and the type that it returns.
    let (read, answer) = match &model.plan.returns {
        Returns::Record => ("record", quote!(#entity)),
        Returns::Optional => ("optional", quote!(::core::option::Option<#entity>)),
        Returns::Page => ("page", quote!(#krate::Page<#entity>)),
        Returns::List => ("records", quote!(::std::vec::Vec<#entity>)),
        Returns::Boolean => ("boolean", quote!(bool)),
        Returns::Count => ("count", quote!(u64)),
        Returns::Nothing => ("nothing", quote!(())),
        Returns::Upserted => ("upserted", quote!(#krate::entity::Upserted<#entity>)),
        Returns::Records(other) => ("records", quote!(::std::vec::Vec<#other>)),
        Returns::Values(value) => ("values", quote!(::std::vec::Vec<#value>)),
        Returns::Other(other) => ("record", quote!(#other)),
        Returns::Custom(expansion) => match &expansion.output {
            Output::Nothing => ("nothing", quote!(())),
            Output::Value(ty) => ("value", quote!(#ty)),
            Output::Record => ("record", quote!(#entity)),
            Output::Optional => ("optional", quote!(::core::option::Option<#entity>)),
            Output::Records => ("records", quote!(::std::vec::Vec<#entity>)),
        },
        Returns::Numbers(Numbers {
            name,
            grouped: false,
            ..
        }) => ("row", quote!(#name)),
        Returns::Numbers(Numbers { name, .. }) => ("rows", quote!(::std::vec::Vec<#name>)),
    };
    let read = Ident::new(read, name_span(ident));
    let (page, call_args) = if model.plan.pages() {
        (quote!(page: #krate::PageArgs), quote!((args, page)))
    } else {
        (TokenStream::new(), quote!(args))
    };
    // `self`, `cx` and `page` count as well. The limit of clippy is seven arguments.
    let allow_many = (names.len() > 4).then(|| quote!(#[allow(clippy::too_many_arguments)]));
    let (doc, listed) = (docs(model), methods::listed(model));
    let (impl_attributes, deprecated) = (impl_attributes(model), lints::deprecated(attrs));
    let row = match &model.plan.returns {
        Returns::Numbers(numbers) => Some(row(model, numbers)),
        _ => None,
    };
    quote_spanned! {name_span(ident)=>
        #row
        #impl_attributes
        impl #adapter {
            #listed
            #[doc = #doc]
            #deprecated
            #allow_many
            // Not `async`: rustc would check a state machine for each method, although the method
            // only awaits another method.
            #vis fn #name(&self, cx: &#krate::Cx, #(#names: #types,)* #page) -> impl #krate::ResultFuture<#answer> {
                use #krate::__private as __lp;
                let args = __lp::args([#(#args),*]);
                __lp::run(self, #ident.spec(), cx, #call_args, __lp::answer::#read)
            }
        }
    }
}

/// Returns the struct for the numbers of an aggregate.
fn row(model: &Expansion<'_>, numbers: &Numbers) -> TokenStream {
    let Declared { vis, ident, .. } = model.declared;
    let (krate, name) = (&model.entity.krate, &numbers.name);
    let (impl_attributes, conditions) = (
        impl_attributes(model),
        lints::conditions(&model.declared.attrs),
    );
    let doc = format!(
        "The numbers that `{}` computes{}.",
        model.name,
        if numbers.grouped {
            " for one group"
        } else {
            ""
        }
    );
    let members = numbers
        .members
        .iter()
        .map(|(name, ty, doc)| quote!(#[doc = #doc] pub #name: #ty,));
    let read = numbers.members.iter().map(|(name, ..)| name);
    quote_spanned! {name_span(ident)=>
        #impl_attributes
        #[doc = #doc]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(dead_code)] // an app that uses only the route never reads the members
        #vis struct #name { #(#members)* }
        #conditions
        #krate::__private::numbers_row!(#name: #(#read),*);
    }
}

/// Splits the arguments into their names, their types and their values.
fn split(
    list: &[(Ident, TokenStream, TokenStream)],
) -> (Vec<Ident>, Vec<TokenStream>, Vec<TokenStream>) {
    let (names, rest): (Vec<_>, Vec<_>) = list
        .iter()
        .cloned()
        .map(|(name, ty, arg)| (name, (ty, arg)))
        .unzip();
    let (types, args) = rest.into_iter().unzip();
    (names, types, args)
}

/// Returns the names, types and values of the parameters.
fn arguments(model: &Expansion<'_>) -> (Vec<Ident>, Vec<TokenStream>, Vec<TokenStream>) {
    let krate = &model.entity.krate;
    let (mut names, mut types, mut args) = (Vec::new(), Vec::new(), Vec::new());
    for (param, position) in model.scope.params.iter().zip(&model.scope.positions) {
        let name = argument_ident(&param.name, param.ident.span());
        let owner = param
            .owner
            .and_then(|owner| model.siblings.get(owner))
            .map_or(model.entity, |sibling| &sibling.model);
        // A type of the app is not checked here: the entity reports a type that no field can have.
        let is_app_type = param.kind == Kind::Other
            && !param.list
            && !param.element
            && !owner.fields[param.field].optional;
        let value = match param.kind {
            _ if param.element => quote!(::std::string::String),
            Kind::String => quote!(::std::string::String),
            Kind::Boolean => quote!(bool),
            Kind::Integer => quote!(i64),
            Kind::Number => quote!(f64),
            // The declared type may not be in scope here, so the marker names it.
            _ if is_app_type => quote!(#krate::TypeAt<#position>),
            _ => quote!(#krate::ValueAt<#position>),
        };
        let optional = !param.required || param.nullable;
        let (ty, arg) = match (param.list, param.element, optional) {
            (true, _, false) => (
                quote!(impl ::core::iter::IntoIterator<Item = impl ::core::convert::Into<#value>>),
                quote!(__lp::list_arg::<#position, _>(#name)),
            ),
            (true, _, true) => (
                quote!(impl ::core::convert::Into<#krate::Param<::std::vec::Vec<#value>>>),
                quote!(__lp::optional_list_arg::<#position>(#name)),
            ),
            (_, true, false) => (
                quote!(impl ::core::convert::Into<#value>),
                quote!(__lp::text_arg(#name)),
            ),
            (_, true, true) => (
                quote!(impl ::core::convert::Into<#krate::Param<#value>>),
                quote!(__lp::optional_text_arg(#name)),
            ),
            (_, _, false) => {
                let arg = if is_app_type {
                    quote!(own_arg)
                } else {
                    quote!(arg)
                };
                (
                    quote!(impl ::core::convert::Into<#value>),
                    quote!(__lp::#arg::<#position>(#name)),
                )
            }
            (_, _, true) => {
                let arg = if is_app_type {
                    quote!(optional_own_arg)
                } else {
                    quote!(optional_arg)
                };
                (
                    quote!(impl ::core::convert::Into<#krate::Param<#value>>),
                    quote!(__lp::#arg::<#position>(#name)),
                )
            }
        };
        names.push(name);
        types.push(ty);
        args.push(arg);
    }
    (names, types, args)
}

/// Returns the parameter's name, unless the method already has an argument with this name.
pub(super) fn argument_ident(name: &str, span: Span) -> Ident {
    match name {
        "cx" | "page" => format_ident!("{name}_", span = span),
        name => names::ident(name, span),
    }
}

/// Returns a span at the const's name. The call site of the second step is the entity's macro,
/// where lints would be confusing.
pub(super) fn name_span(ident: &Ident) -> Span {
    Span::call_site().located_at(ident.span())
}

/// Returns the docs of the method: the doc comment of the app, then the routes and errors.
fn docs(model: &Expansion<'_>) -> String {
    let mut doc = model.declared.doc();
    if doc.is_empty() {
        doc = format!("The operation `{}`.", model.name);
    }
    if !model.route.policy.disabled && !model.routes.is_empty() {
        let base = &model.entity.base_path();
        let route = |(method, segments): &(super::path::Method, Vec<Segment>)| {
            format!("`{} {}`", method.as_str(), path_text(base, segments))
        };
        let routes: Vec<String> = model.routes.iter().map(route).collect();
        doc.push_str(&format!("\n\nOver HTTP: {}.", routes.join(", ")));
    }
    doc.push_str(&format!("\n\n# Errors\n{}", model.plan.errors));
    doc
}
