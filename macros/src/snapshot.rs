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

/// Formats an expansion and compares it with the stored one.
pub(crate) fn assert(name: &str, source: &str, expansion: &TokenStream) {
    let file = syn::parse2::<syn::File>(expansion.clone()).unwrap_or_else(|e| panic!("not a file: {e}\n{expansion}"));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(source.trim());
    settings.bind(|| insta::assert_snapshot!(name, prettyplease::unparse(&file)));
}
