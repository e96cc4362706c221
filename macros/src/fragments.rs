//! Declarations inside a `macro_rules!` of the app.
//!
//! rustc passes the match of `$name:literal`, `$ty:ty` or `$path:path` in an invisible group. Every
//! reader of options and types would have to look inside, so these groups are removed before
//! anything is read.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::Type;

/// Returns the same tokens without invisible groups. A group around an expression of several parts
/// stays, because its operators would bind differently without it.
pub(crate) fn plain(tokens: TokenStream) -> TokenStream {
    if !has_fragments(&tokens) {
        return tokens;
    }
    let ungroup = |token: TokenTree| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let inside = plain(group.stream());
            if needs_no_group(&inside) {
                inside
            } else {
                regrouped(&group, inside).into()
            }
        }
        TokenTree::Group(group) => {
            let inside = plain(group.stream());
            regrouped(&group, inside).into()
        }
        other => other.into(),
    };
    tokens
        .into_iter()
        .map(ungroup)
        .collect::<Vec<TokenStream>>()
        .into_iter()
        .collect()
}

fn has_fragments(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => {
            group.delimiter() == Delimiter::None || has_fragments(&group.stream())
        }
        _ => false,
    })
}

/// Returns the group with the tokens `inside` in place of its own. A group without fragments is
/// returned as it is, to keep the spans of its brackets.
fn regrouped(group: &Group, inside: TokenStream) -> TokenTree {
    if group.delimiter() != Delimiter::None && !has_fragments(&group.stream()) {
        return group.clone().into();
    }
    let mut regrouped = Group::new(group.delimiter(), inside);
    regrouped.set_span(group.span());
    regrouped.into()
}

/// Whether tokens mean the same without a group: a single token, a number with its sign, a path or
/// a type.
fn needs_no_group(tokens: &TokenStream) -> bool {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    match &trees[..] {
        [] | [_] => true,
        [TokenTree::Punct(sign), TokenTree::Literal(_)] => sign.as_char() == '-',
        _ => syn::parse2::<Type>(tokens.clone()).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn fragment(tokens: TokenStream) -> TokenTree {
        Group::new(Delimiter::None, tokens).into()
    }

    #[test]
    fn macro_fragments_are_unwrapped_if_the_meaning_stays() {
        let (number, ty, path, sum) = (
            fragment(quote!(-5)),
            fragment(quote!(Vec<String>)),
            fragment(quote!(a::B)),
            fragment(quote!(a || b)),
        );
        let nested = fragment(fragment(quote!("text")).into());
        let plain = plain(quote!(x(#number, Option<#ty>, #path, #nested, [#sum && c])));
        assert_eq!(
            plain.to_string(),
            quote!(x(-5, Option<Vec<String> >, a::B, "text", [a || b && c])).to_string()
        );
        // The texts are equal, but an expression of several parts is still in a group.
        let Some(TokenTree::Group(arguments)) = plain.into_iter().nth(1) else {
            panic!("no group")
        };
        let Some(TokenTree::Group(list)) = arguments.stream().into_iter().last() else {
            panic!("no list")
        };
        assert!(
            matches!(list.stream().into_iter().next(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None)
        );
    }
}
