//! Attributes that a declaration shares with what is generated for it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Meta};

/// What generated items allow: what the declaration itself allows or expects, and the use of parts
/// of it that are deprecated.
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

/// Of the attributes of a const, those that its method has as well.
pub(crate) fn deprecated(own: &[Attribute]) -> TokenStream {
    let own = own.iter().filter(|attr| is_deprecated(attr));
    quote!(#(#own)*)
}

/// Of the attributes of a const, those that decide whether what is generated for it is there.
pub(crate) fn conditions(own: &[Attribute]) -> TokenStream {
    let own = own.iter().filter(|attr| attr.path().is_ident("cfg"));
    quote!(#(#own)*)
}

/// Whether it says that something is deprecated.
fn is_deprecated(attr: &Attribute) -> bool {
    attr.path().is_ident("deprecated")
}
