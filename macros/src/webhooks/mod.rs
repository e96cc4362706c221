//! `webhook_events!`: an expression that builds the catalogue of webhook events.
//!
//! Without conditions one step is enough: rustc finds the entities and operations. If an event has
//! `when(..)`, the macro calls the schema macros of the entities of such events; after their
//! declarations are collected, [`expand`] resolves the conditions.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token};

use self::parse::Catalogue;
use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::gather;
use crate::schema::SchemaInput;

mod word {
    syn::custom_keyword!(webhooks);
}

/// The arguments of the second step, `@ webhooks ..`.
pub(crate) struct SecondStepArgs;

impl SecondStepArgs {
    /// Whether the arguments that an entity's macro passes on belong to a catalogue.
    pub(crate) fn is(args: &TokenStream) -> bool {
        syn::parse2::<Self>(gather::own_args(args)).is_ok()
    }
}

impl Parse for SecondStepArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![@]>()?;
        input.parse::<word::webhooks>()?;
        Ok(Self)
    }
}

/// The first step, and the only one without conditions.
pub(crate) fn run(input: TokenStream) -> TokenStream {
    let input = plain(input);
    let mut d = Diagnostics::new();
    let catalogue = Catalogue::read(input.clone(), &mut d);
    if let Some(first) = catalogue.conditional().next() {
        // The second step reads the input again and reports its errors.
        d.ignore();
        return quote!(#first! { {@ webhooks} {#input} });
    }
    check::check(&catalogue, &mut d);
    expand::expand(&catalogue, &[], d)
}

/// The second step.
pub(crate) fn expand(input: SchemaInput) -> TokenStream {
    let mut d = Diagnostics::new();
    let catalogue = Catalogue::read(input.item.clone(), &mut d);
    let Some(first) = catalogue.conditional().next().cloned() else {
        return expand::expand(&catalogue, &[], d);
    };
    let named = |_: &TokenStream, _: &TokenStream| -> Vec<Path> {
        catalogue.conditional().cloned().collect()
    };
    let entities = match gather::step(input, &first, named, &mut d) {
        Some(gather::Step::Done(entities)) => entities,
        Some(gather::Step::Ask(next)) => {
            d.ignore();
            return next;
        }
        Some(gather::Step::Broken) => {
            // The macro of the entity has reported the reason.
            d.ignore();
            return expand::empty(&catalogue);
        }
        None => return expand::expand(&catalogue, &[], d),
    };
    check::check(&catalogue, &mut d);
    let conditions = check::conditions(&catalogue, &first, &entities, &mut d);
    expand::expand(&catalogue, &conditions, d)
}
