//! `sse!`: a const that describes an endpoint of server-sent events.
//!
//! Two steps, as for channels: [`run`] calls the schema macro of the first entity; after the
//! declarations of all entities are collected, [`expand`] checks the endpoint against them.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token};

use self::parse::Endpoint;
use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::gather;
use crate::schema::SchemaInput;

mod word {
    syn::custom_keyword!(sse);
}

/// The arguments of the second step, `@ sse ..`.
pub(crate) struct SecondStepArgs;

impl SecondStepArgs {
    /// Whether the arguments that an entity's macro passes on belong to an endpoint.
    pub(crate) fn is(args: &TokenStream) -> bool {
        syn::parse2::<Self>(gather::own_args(args)).is_ok()
    }
}

impl Parse for SecondStepArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![@]>()?;
        input.parse::<word::sse>()?;
        Ok(Self)
    }
}

/// The first step.
pub(crate) fn run(input: TokenStream) -> TokenStream {
    let input = plain(input);
    let mut d = Diagnostics::new();
    let Some(endpoint) = Endpoint::read(input.clone(), &mut d) else {
        return d.finish();
    };
    match endpoint.sources.first() {
        Some(first) => {
            // The second step reads the input again and reports its errors.
            d.ignore();
            let entity = &first.entity;
            quote!(#entity! { {@ sse} {#input} })
        }
        None => {
            let errors = d.finish();
            let item = expand::poisoned(&endpoint);
            quote!(#errors #item)
        }
    }
}

/// The second step, in four phases.
pub(crate) fn expand(input: SchemaInput) -> TokenStream {
    let mut d = Diagnostics::new();
    let Some(endpoint) = Endpoint::read(input.item.clone(), &mut d) else {
        return d.finish();
    };
    let Some(first) = endpoint.sources.first() else {
        return d.finish();
    };
    let named = |_: &TokenStream, _: &TokenStream| -> Vec<Path> {
        endpoint
            .sources
            .iter()
            .map(|source| source.entity.clone())
            .collect()
    };
    let entities = match gather::step(input, &first.entity, named, &mut d) {
        Some(gather::Step::Done(entities)) => entities,
        Some(gather::Step::Ask(next)) => {
            d.ignore();
            return next;
        }
        Some(gather::Step::Broken) => {
            // The macro of the entity has reported the reason.
            d.ignore();
            return expand::poisoned(&endpoint);
        }
        None => return d.finish(),
    };
    check::check(&endpoint, &entities, &mut d);
    let sound = d.is_empty();
    let errors = d.finish();
    let item = expand::expand(&endpoint, &entities, sound);
    quote!(#errors #item)
}
