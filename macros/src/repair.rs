//! Adds missing commas between the fields of an item.
//!
//! rustc reports a missing comma and then passes the item to the macro as written. The macro adds
//! the comma and continues, so that one mistake causes one error.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Field, Token, Variant};

/// Reads an item. If only commas between its fields are missing, they are added.
pub(crate) fn item<T: Parse>(tokens: &TokenStream) -> syn::Result<T> {
    let read = syn::parse2(tokens.clone());
    if read.is_ok() {
        return read;
    }
    match separated(tokens).map(syn::parse2) {
        Some(Ok(repaired)) => Ok(repaired),
        _ => read,
    }
}

/// The same item with commas between its fields or variants.
fn separated(tokens: &TokenStream) -> Option<TokenStream> {
    let mut trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_enum = trees
        .iter()
        .any(|tree| matches!(tree, TokenTree::Ident(word) if word == "enum"));
    let Some(TokenTree::Group(body)) = trees.pop() else {
        return None;
    };
    if body.delimiter() != Delimiter::Brace {
        return None;
    }
    let members = move |input: ParseStream<'_>| {
        let mut members = TokenStream::new();
        while !input.is_empty() {
            let member = if is_enum {
                input.parse::<Variant>()?.into_token_stream()
            } else {
                Field::parse_named(input)?.into_token_stream()
            };
            members.extend(quote!(#member,));
            if input.parse::<Option<Token![,]>>()?.is_none() {
                input.parse::<Option<Token![;]>>()?;
            }
        }
        Ok(members)
    };
    let mut fields = Group::new(Delimiter::Brace, members.parse2(body.stream()).ok()?);
    fields.set_span(body.span());
    trees.push(fields.into());
    Some(trees.into_iter().collect())
}
