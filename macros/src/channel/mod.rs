//! `#[channel]`: an enum becomes the events of one kind of room.
//!
//! Two steps, as for operations: [`run`] emits the enum and calls the schema macro of the entity in
//! `of`. The declarations of all entities that the variants name are collected, and [`expand`]
//! checks the channel against them.

mod args;
mod check;
mod expand;
mod history;
mod incoming;
mod item;
mod marks;
mod model;
pub(crate) mod names;
#[cfg(test)]
pub(crate) mod tests;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{ItemEnum, Path, Token};

use self::args::ChannelArgs;
use self::item::Declared;
use self::model::Model;
use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::gather;
use crate::repair;
use crate::schema::SchemaInput;

pub(crate) use self::check::read_disabled;
pub(crate) use self::expand::{change_assert, operation_of};
pub(crate) use self::history::History;
pub(crate) use self::marks::{EventPath, Word};

mod word {
    syn::custom_keyword!(channel);
}

/// The arguments of the second step, `@ channel ..`.
pub(crate) struct SecondStepArgs(TokenStream);

impl SecondStepArgs {
    /// Whether the arguments that an entity's macro passes on belong to a channel.
    pub(crate) fn is(args: &TokenStream) -> bool {
        syn::parse2::<Self>(gather::own_args(args)).is_ok()
    }
}

impl Parse for SecondStepArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![@]>()?;
        input.parse::<word::channel>()?;
        input.parse().map(Self)
    }
}

/// The first step.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let (args, item) = (plain(args), plain(item));
    let mut d = Diagnostics::new();
    let parsed = repair::item::<ItemEnum>(&item).map_err(|error| {
        syn::Error::new(
            error.span(),
            "a channel must be an enum with one variant for each event\nhelp: `#[channel(of = Container, \
             name = \"live\")] pub enum ContainerLive { .. }`",
        )
    });
    let Some(parsed) = d.take(parsed) else {
        let errors = d.finish();
        return quote!(#item #errors);
    };
    // The second step reads the options again and reports their errors, except without `of`.
    let mut first_errors = Diagnostics::new();
    let channel_args = ChannelArgs::parse(args.clone(), &mut first_errors);
    let second_step = match &channel_args.of {
        Some(of) => {
            first_errors.ignore();
            quote!(#of! { {@ channel #args} {#item} })
        }
        None => first_errors.finish(),
    };
    let errors = d.finish();
    let emitted = item::emitted(parsed);
    quote!(#emitted #second_step #errors)
}

/// The second step, in four phases: parse, model, check, expand.
pub(crate) fn expand(input: SchemaInput) -> TokenStream {
    let mut d = Diagnostics::new();
    let args = gather::own_args(&input.args);
    let Some(SecondStepArgs(own)) = d.take(syn::parse2::<SecondStepArgs>(args)) else {
        return d.finish();
    };
    let Some(item) = d.take(repair::item::<ItemEnum>(&input.item)) else {
        return d.finish();
    };
    let args = ChannelArgs::parse(own, &mut d);
    let declared = Declared::read(&item, &mut d);
    let Some(of) = args.of.clone() else {
        return d.finish();
    };
    let named = |_: &TokenStream, _: &TokenStream| -> Vec<Path> { declared.entities() };
    let entities = match gather::step(input, &of, named, &mut d) {
        Some(gather::Step::Done(entities)) => entities,
        Some(gather::Step::Ask(next)) => {
            d.ignore();
            return next;
        }
        Some(gather::Step::Broken) => {
            // The macro of the entity has reported the reason.
            d.ignore();
            return TokenStream::new();
        }
        None => return d.finish(),
    };
    let model = Model::resolve(&args, &of, &declared, &entities, &mut d);
    check::check(&model, &mut d);
    let sound = d.is_empty();
    let errors = d.finish();
    let expanded = expand::expand(&model, sound);
    quote!(#errors #expanded)
}
