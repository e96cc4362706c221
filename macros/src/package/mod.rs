//! `package!`: a list of entities with their operations and extra routes. Assertions check that all
//! routes are different.

mod parse;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use self::parse::{EntityArgs, PackageArgs};
use crate::diagnostics::Diagnostics;
use crate::expr::index;
use crate::fragments::plain;
use crate::names;
use crate::operation::methods::in_no_package;
use crate::policy::middleware;

/// `package!(name = "blog", entities = [entity(Post, [PUBLISH, feed])])`.
pub(crate) fn run(input: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let args = PackageArgs::parse(plain(input), &mut d);
    check(&args, &mut d);
    let sound = d.is_empty();
    let errors = d.finish();
    expand(&args, sound, &errors)
}

/// Checks the rules that need only the tokens.
fn check(args: &PackageArgs, d: &mut Diagnostics) {
    for entity in &args.entities {
        let mut seen: Vec<(String, String)> = Vec::new();
        for item in &entity.items {
            let name = last(item);
            let kebab = names::kebab(&name);
            match seen.iter().find(|(_, other)| *other == kebab) {
                Some((first, _)) if *first == name => d
                    .error(item, format!("`{name}` is listed twice"))
                    .help("keep one of them"),
                Some((first, _)) => {
                    d.error(
                        item,
                        format!("operations `{first}` and `{name}` share route `{kebab}`"),
                    )
                    .help("another name");
                }
                None => seen.push((name, kebab)),
            }
        }
    }
    for (i, entity) in args.entities.iter().enumerate() {
        let path = entity.entity.to_token_stream().to_string();
        if args.entities[..i]
            .iter()
            .any(|other| other.entity.to_token_stream().to_string() == path)
        {
            d.error(
                &entity.entity,
                format!("entity `{}` is listed twice", last(&entity.entity)),
            )
            .help("write one `entity(..)` with all operations of the entity");
        }
    }
}

/// Returns the package. With errors in the declaration, the package is empty.
fn expand(args: &PackageArgs, sound: bool, errors: &TokenStream) -> TokenStream {
    let PackageArgs {
        krate,
        name,
        mount,
        dependencies,
        ..
    } = args;
    let entities = args.entities.iter().filter(|_| sound).map(entity);
    let asserts: TokenStream = args
        .entities
        .iter()
        .enumerate()
        .filter(|_| sound)
        .flat_map(|(i, e)| asserts(i, e))
        .collect();
    let audits: TokenStream = args
        .entities
        .iter()
        .enumerate()
        .filter(|_| sound && !args.audited.is_empty())
        .flat_map(|(i, e)| audits(i, e))
        .collect();
    let audited = &args.audited;
    let action_asserts = actions(args).filter(|_| sound);
    let audited_const =
        (!audits.is_empty()).then(|| quote!(const AUDITED: &[&str] = &[#(#audited),*];));
    let count = index(args.entities.len());
    // One number per entity. With these numbers, the assertions quickly exclude pairs of entities
    // that cannot have a common route.
    let beginnings = (sound && args.entities.len() > 1)
        .then(|| quote!(const BEGINNINGS: [u64; #count] = __lp::beginnings(ENTITIES);));
    let hook = args.after_adapters.as_ref().map(|path| {
        // The span is the path of the app, so that rustc reports a type error there.
        let call = quote_spanned!(path.span()=> __lp::boxed(#path(adapters)));
        quote!(__lp::Some(const { &((|adapters| #call) as __lp::AfterAdapters) }))
    });
    let hook = hook
        .filter(|_| crate::SERVER)
        .unwrap_or_else(|| quote!(__lp::None));
    let listed = args
        .entities
        .iter()
        .filter(|_| sound && crate::SERVER)
        .filter_map(listed);
    let middleware = if crate::SERVER {
        middleware::list(&args.middleware)
    } else {
        quote!(&[])
    };
    quote! {{
        #errors
        use #krate::__private as __lp;
        const ENTITIES: &[__lp::EntityEntry] = &[#(#entities),*];
        #beginnings
        #asserts
        #audited_const
        #audits
        #(#action_asserts)*
        #(#listed)*
        __lp::Package { name: #name, version: ::core::env!("CARGO_PKG_VERSION"), mount: #mount, entities: ENTITIES, dependencies: &[#(#dependencies),*], middleware: #middleware, after_adapters: #hook }
    }}
}

fn entity(args: &EntityArgs) -> TokenStream {
    let EntityArgs { entity, items } = args;
    let (routes, operations): (Vec<&Path>, Vec<&Path>) =
        items.iter().partition(|item| is_route(item));
    // The span is the listed name, so that rustc reports an operation of another entity there.
    let operations = operations
        .iter()
        .map(|item| quote_spanned!(item.span()=> __lp::op::<#entity, _>(&#item)));
    let routes = routes
        .iter()
        .map(|item| quote_spanned!(item.span()=> __lp::extra::<#entity, _>(&#item)));
    let routes = if crate::SERVER {
        quote!(&[#(#routes),*])
    } else {
        quote!(&[])
    };
    quote! {
        __lp::EntityEntry { desc: <#entity as __lp::Entity>::DESC, operations: &[#(#operations),*], routes: #routes }
    }
}

/// Uses the const `.._IS_IN_NO_PACKAGE` of each listed operation, so that rustc does not report the
/// const as unused. A private operation has no such const, and the const of an operation in another
/// crate is not visible. For these operations, the path resolves to the const of the trait
/// `Listed`.
fn listed(args: &EntityArgs) -> Option<TokenStream> {
    let entity = &args.entity;
    let names: Vec<_> = args
        .items
        .iter()
        .filter(|item| !is_route(item))
        .filter_map(|item| in_no_package(&last(item), Span::call_site()))
        .collect();
    (!names.is_empty()).then(|| {
        quote! {
            const _: () = {
                #[allow(dead_code)] // rustc would warn about consts that are never resolved to the trait
                trait Listed { #(const #names: () = ();)* }
                impl<T> Listed for T {}
                #(<<#entity as __lp::Entity>::Adapter>::#names;)*
            };
        }
    })
}

/// Returns one assertion for each listed name, with the span of the name, and the assertions about
/// the entity, with the span of its path. Const evaluation reports an error at this span.
fn asserts(position: usize, args: &EntityArgs) -> Vec<TokenStream> {
    let at = index(position);
    let operations = args.items.iter().filter(|item| !is_route(item));
    let routes = args.items.iter().filter(|item| is_route(item));
    // The five generated routes come first.
    let unique = operations.chain(routes).enumerate().map(|(i, item)| {
        let declared = index(5 + i);
        quote_spanned!(item.span()=> const _: () = __lp::assert_unique(&ENTITIES[#at], #declared);)
    });
    let mut asserts: Vec<TokenStream> = unique.collect();
    asserts.push(
        quote_spanned!(args.entity.span()=> const _: () = __lp::assert_scoped(&ENTITIES[#at]);),
    );
    if position > 0 {
        asserts.push(quote_spanned!(args.entity.span()=> const _: () = __lp::assert_apart(ENTITIES, &BEGINNINGS, #at);));
    }
    asserts
}

/// Returns one assertion for each action of `audited`, with the span of its text: at least one
/// permission of the package must require the action.
fn actions(args: &PackageArgs) -> impl Iterator<Item = TokenStream> + '_ {
    args.audited.iter().map(|action| quote_spanned!(action.span()=> const _: () = __lp::assert_action(ENTITIES, #action);))
}

/// Returns the assertions about `audit`: one for the generated routes, with the span of the entity,
/// and one for each listed name, with its span.
fn audits(position: usize, args: &EntityArgs) -> Vec<TokenStream> {
    let at = index(position);
    let entity = &args.entity;
    let mut asserts = vec![
        quote_spanned!(entity.span()=> const _: () = __lp::assert_audited(&ENTITIES[#at], AUDITED);),
    ];
    let operations = args.items.iter().filter(|item| !is_route(item)).enumerate().map(|(i, item)| {
        let i = index(i);
        quote_spanned!(item.span()=> const _: () = __lp::assert_operation_audited(&ENTITIES[#at], #i, AUDITED);)
    });
    asserts.extend(operations);
    if crate::SERVER {
        asserts.extend(args.items.iter().filter(|item| is_route(item)).enumerate().map(|(i, item)| {
            let i = index(i);
            quote_spanned!(item.span()=> const _: () = __lp::assert_route_audited(&ENTITIES[#at], #i, AUDITED);)
        }));
    }
    asserts
}

/// Whether a listed name is a function with `#[route]`: it is in lower case, and an operation is in
/// upper case.
fn is_route(item: &Path) -> bool {
    !last(item).chars().any(char::is_uppercase)
}

fn last(path: &Path) -> String {
    path.segments
        .last()
        .map(|segment| segment.ident.unraw().to_string())
        .unwrap_or_default()
}
