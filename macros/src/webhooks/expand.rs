//! The expansion: a block of const assertions and statics, and a chain of calls.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};

use super::check::{Condition, intended_event};
use super::parse::{Catalogue, Event};
use crate::channel::{Word, change_assert, operation_of};
use crate::diagnostics::Diagnostics;
use crate::expr::at;

/// Returns a catalogue without events, for a declaration with errors, so that code that uses it
/// causes no further errors.
pub(super) fn empty(catalogue: &Catalogue) -> TokenStream {
    let krate = &catalogue.krate;
    quote!(#krate::Catalogue::new())
}

/// Returns the catalogue. `conditions` has one entry for each event, in their order, or is empty.
/// If there are errors, the catalogue is empty; the assertions are kept.
pub(super) fn expand(
    catalogue: &Catalogue,
    conditions: &[Option<Condition>],
    d: Diagnostics,
) -> TokenStream {
    let sound = d.is_empty();
    let errors = d.finish();
    let krate = &catalogue.krate;
    let condition = |at: usize| conditions.get(at).and_then(Option::as_ref);
    let (mut items, mut calls) = (TokenStream::new(), TokenStream::new());
    for (number, event) in catalogue.events().enumerate() {
        items.extend(asserts(event));
        let (entity, change) = (desc(event), change(event));
        let mut call = quote!(.__event(#entity, #change));
        if let Some((when, checks)) = condition(number) {
            let name = format_ident!("WHEN_{number}", span = Span::mixed_site());
            items.extend(quote! {
                static #name: __rt::FilterSpec = #when;
                #(#checks)*
            });
            call = quote!(.__event_when(#entity, #change, &#name));
        }
        if sound {
            calls.extend(call);
        }
    }
    quote! {
        {
            #errors
            #[allow(unused_imports)] // unused in an empty catalogue
            use #krate::__private as __rt;
            #[allow(unused_imports)]
            use #krate::__private as __lp;
            #items
            #krate::Catalogue::new() #calls
        }
    }
}

/// `<Order as __lp::Entity>::DESC`, with the span of the path.
fn desc(event: &Event) -> TokenStream {
    let path = &event.path.entity;
    at(
        quote!(<#path as __lp::Entity>::DESC),
        &path.to_token_stream(),
    )
}

fn change(event: &Event) -> TokenStream {
    match &event.path.word {
        Word::Created => quote!(__rt::Change::Created),
        Word::Updated => quote!(__rt::Change::Updated),
        Word::Deleted => quote!(__rt::Change::Deleted),
        Word::Operation(_) => {
            let operation = operation_of(&event.path.entity, &event.path);
            quote!(__rt::Change::Operation(#operation))
        }
    }
}

/// Returns the checks that only rustc can make, each with the span of the token in the app.
fn asserts(event: &Event) -> TokenStream {
    if intended_event(event).is_some() {
        // A misspelt route, which has been reported: rustc would report an unknown operation.
        return TokenStream::new();
    }
    if let Word::Operation(_) = event.path.word {
        return change_assert(&event.path.entity, &event.path);
    }
    let (desc, change, path_text) = (desc(event), change(event), event.path.path_text());
    quote_spanned!(event.path.at.span()=> const _: () = __rt::assert_schema(#desc, #change, #path_text);)
}
