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
use crate::schema::Handed;

pub(crate) use self::check::read_disabled;
pub(crate) use self::expand::{change_assert, operation_of};
pub(crate) use self::history::History;
pub(crate) use self::marks::{EventPath, Word};

mod word {
    syn::custom_keyword!(channel);
}

/// The arguments of the second step.
pub(crate) struct Asked(TokenStream);

impl Asked {
    /// Whether the arguments that an entity's macro passes on belong to a channel.
    pub(crate) fn is(args: &TokenStream) -> bool {
        syn::parse2::<Self>(gather::own_args(args)).is_ok()
    }
}

impl Parse for Asked {
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
            "a channel is an enum, one variant for each event\nhelp: `#[channel(of = Container, \
             name = \"live\")] pub enum ContainerLive { .. }`",
        )
    });
    let Some(parsed) = d.take(parsed) else {
        let errors = d.finish();
        return quote!(#item #errors);
    };
    // The second step reads the options again and reports their errors, except without `of`.
    let mut first = Diagnostics::new();
    let read = ChannelArgs::parse(args.clone(), &mut first);
    let ask = match &read.of {
        Some(of) => {
            first.ignore();
            quote!(#of! { {@ channel #args} {#item} })
        }
        None => first.finish(),
    };
    let errors = d.finish();
    let emitted = item::emitted(parsed);
    quote!(#emitted #ask #errors)
}

/// The second step, in four phases: parse, model, check, expand.
pub(crate) fn expand(handed: Handed) -> TokenStream {
    let mut d = Diagnostics::new();
    let args = gather::own_args(&handed.args);
    let Some(Asked(own)) = d.take(syn::parse2::<Asked>(args)) else {
        return d.finish();
    };
    let Some(item) = d.take(repair::item::<ItemEnum>(&handed.item)) else {
        return d.finish();
    };
    let args = ChannelArgs::parse(own, &mut d);
    let declared = Declared::read(&item, &mut d);
    let Some(of) = args.of.clone() else {
        return d.finish();
    };
    let named = |_: &TokenStream, _: &TokenStream| -> Vec<Path> { declared.entities() };
    let entities = match gather::step(handed, &of, named, &mut d) {
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
