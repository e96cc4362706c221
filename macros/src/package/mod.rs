//! `package!`: a list of entities with their operations and extra routes, and the assertions that
//! no two have the same route.

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
            .help("one `entity(..)` with all its operations");
        }
    }
}

/// Returns the package. A wrong declaration gives the empty package beside its errors.
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
    let named = &args.audited;
    let known = actions(args).filter(|_| sound);
    let actions = (!audits.is_empty()).then(|| quote!(const AUDITED: &[&str] = &[#(#named),*];));
    let many = index(args.entities.len());
    let beginnings = (sound && args.entities.len() > 1)
        .then(|| quote!(const BEGINNINGS: [u64; #many] = __lp::beginnings(ENTITIES);));
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
        #actions
        #audits
        #(#known)*
        #(#listed)*
        __lp::Package { name: #name, version: ::core::env!("CARGO_PKG_VERSION"), mount: #mount, entities: ENTITIES, dependencies: &[#(#dependencies),*], middleware: #middleware, after_adapters: #hook }
    }}
}

fn entity(args: &EntityArgs) -> TokenStream {
    let EntityArgs { entity, items } = args;
    let (routes, operations): (Vec<&Path>, Vec<&Path>) =
        items.iter().partition(|item| is_route(item));
    // The span is the listed name, so that rustc reports there that it belongs to another entity.
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

/// Uses the marker that each operation generates beside its method, so that rustc does not warn
/// that it is unused. The marker of an operation in another crate is not visible, and a private
/// operation has none; the trait replaces it.
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
                #[allow(dead_code)] // of those that are not needed
                trait Listed { #(const #names: () = ();)* }
                impl<T> Listed for T {}
                #(<<#entity as __lp::Entity>::Adapter>::#names;)*
            };
        }
    })
}

/// Returns one assertion per declaration, at its name: const evaluation reports errors at the call.
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

/// Returns one assertion per action, at its text: a permission of the package must name it.
fn actions(args: &PackageArgs) -> impl Iterator<Item = TokenStream> + '_ {
    args.audited.iter().map(|action| quote_spanned!(action.span()=> const _: () = __lp::assert_action(ENTITIES, #action);))
}

/// Returns one assertion for the generated routes, at the entity, and one per declaration, at its
/// name.
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

/// Functions with `#[route]` are in lower case; operations are consts.
fn is_route(item: &Path) -> bool {
    !last(item).chars().any(char::is_uppercase)
}

fn last(path: &Path) -> String {
    path.segments
        .last()
        .map(|segment| segment.ident.unraw().to_string())
        .unwrap_or_default()
}
