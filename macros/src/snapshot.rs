//! Snapshots of expansions, formatted as a person would read them, with the input stored beside the output.
//!
//! They land in the top-level folder `snapshots/`; `cargo insta review` or `INSTA_UPDATE=always cargo test` accepts changes.

use proc_macro2::TokenStream;

/// Splits `#[name(args)] item` into the arguments of its first attribute and the item without it.
pub(crate) fn declaration(source: &str) -> (TokenStream, TokenStream) {
    let tokens: TokenStream = source.parse().unwrap_or_else(|e| panic!("not tokens: {e}"));
    let item = |input: syn::parse::ParseStream<'_>| {
        let mut attrs = input.call(syn::Attribute::parse_outer)?;
        let ours = attrs.iter().position(|a| !a.path().is_ident("doc")).ok_or_else(|| input.error("no attribute"))?;
        let args = match &attrs.remove(ours).meta {
            syn::Meta::List(list) => list.tokens.clone(),
            _ => TokenStream::new(),
        };
        let rest: TokenStream = input.parse()?;
        Ok((args, quote::quote!(#(#attrs)* #rest)))
    };
    syn::parse::Parser::parse2(item, tokens).unwrap_or_else(|e| panic!("not a declaration: {e}"))
}

/// Formats an expansion and compares it with the stored one. It holds errors if its name says that the declaration is broken, and no
/// others do.
pub(crate) fn assert(name: &str, source: &str, expansion: &TokenStream) {
    let broken = expansion.to_string().contains("compile_error");
    assert_eq!(broken, name.ends_with("_broken"), "errors in `{name}`: {broken}\n{expansion}");
    let file = syn::parse2::<syn::File>(expansion.clone()).unwrap_or_else(|e| panic!("not a file: {e}\n{expansion}"));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(source.trim());
    settings.bind(|| insta::assert_snapshot!(name, prettyplease::unparse(&file)));
}

#[test]
fn a_package() {
    package("package", include_str!("../tests/snapshot/package.rs"));
}

/// Whatever is wrong with a package, its value is there for those who mount it.
#[test]
fn a_broken_package() {
    package("package_broken", include_str!("../tests/snapshot/package_broken.rs"));
}

fn package(name: &str, source: &str) {
    let mut item: syn::ItemStatic = syn::parse_str(source).unwrap_or_else(|e| panic!("not a static: {e}"));
    let syn::Expr::Macro(call) = &*item.expr else { panic!("no call of package!") };
    *item.expr = syn::Expr::Verbatim(crate::package::run(call.mac.tokens.clone()));
    assert(name, source, &quote::quote!(#item));
}

#[test]
fn a_route() {
    let source = include_str!("../tests/snapshot/route.rs");
    let (args, item) = declaration(source);
    assert("route", source, &crate::route::run(args, item));
}

#[test]
fn a_broken_route() {
    let source = include_str!("../tests/snapshot/route_broken.rs");
    let (args, item) = declaration(source);
    assert("route_broken", source, &crate::route::run(args, item));
}
