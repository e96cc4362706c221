//! Attributes of a declaration that its generated items get as well.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Meta};

/// Returns the lints that generated items allow: those that the declaration allows or expects, and
/// `deprecated` for deprecated parts of it.
pub(crate) fn allowed<'a>(
    own: &'a [Attribute],
    parts: impl IntoIterator<Item = &'a Attribute>,
) -> TokenStream {
    let lists = own.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => {
            Some(&list.tokens)
        }
        _ => None,
    });
    let deprecated = own
        .iter()
        .chain(parts)
        .any(is_deprecated)
        .then(|| quote!(#[allow(deprecated)]));
    quote!(#(#[allow(#lists)])* #deprecated)
}

/// Returns the attributes of a const that its method gets as well.
pub(crate) fn deprecated(own: &[Attribute]) -> TokenStream {
    let own = own.iter().filter(|attr| is_deprecated(attr));
    quote!(#(#own)*)
}

/// Returns the attributes of a const that decide whether its generated items are compiled.
pub(crate) fn conditions(own: &[Attribute]) -> TokenStream {
    let own = own.iter().filter(|attr| attr.path().is_ident("cfg"));
    quote!(#(#own)*)
}

/// Whether an attribute marks an item as deprecated.
fn is_deprecated(attr: &Attribute) -> bool {
    attr.path().is_ident("deprecated")
}
