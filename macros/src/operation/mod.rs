//! `#[operation]`: a const without a value becomes a checked descriptor and a method of the
//! entity's adapter.
//!
//! Two steps. [`run`] finds the entity in the type of the const and calls its schema macro. That
//! macro calls [`expand`] with the entity's declaration, so that the checks can use the whole
//! entity.

pub(crate) mod args;
mod capability;
mod check;
mod expand;
mod item;
pub(crate) mod kinds;
pub(crate) mod methods;
mod model;
pub(crate) mod path;
mod place;
mod reach;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;

use self::args::Args;
use self::expand::{Expansion, argument_ident};
use self::item::Declared;
use self::model::{Model, Parsed, ScopeResults};
use crate::diagnostics::Diagnostics;
use crate::editor::Hints;
use crate::expr::Scope;
use crate::fragments::plain;
use crate::gather;
use crate::schema::SchemaInput;

/// The first step.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let (args, item) = (plain(args), plain(item));
    let mut d = Diagnostics::new();
    match d.take(syn::parse2::<Declared>(item.clone())) {
        Some(declared) => {
            d.ignore();
            let entity = &declared.entity;
            quote!(#entity! { {#args} {#item} })
        }
        None => d.finish(),
    }
}

/// Returns a const without an effect for a declaration that its macro does not accept. If the item
/// cannot be parsed as a declaration (a const without a value), it is returned unchanged.
pub(crate) fn poisoned(item: TokenStream) -> TokenStream {
    match syn::parse2::<Declared>(item.clone()) {
        Ok(declared) => expand::poisoned(&declared),
        Err(_) => item,
    }
}

/// The second step, in four phases: parse, model, check, expand.
pub(crate) fn expand(input: SchemaInput) -> TokenStream {
    let mut d = Diagnostics::new();
    let Some(declared) = d.take(syn::parse2::<Declared>(input.item.clone())) else {
        return d.finish();
    };
    let named = |args: &TokenStream, _: &TokenStream| {
        let mut ignored = Diagnostics::new();
        let args = Args::parse(args.clone(), &mut ignored);
        let named = kinds::entities(&args, &mut ignored);
        ignored.ignore();
        named
    };
    let entities = match gather::step(input, &declared.entity, named, &mut d) {
        Some(gather::Step::Done(entities)) => entities,
        Some(gather::Step::Ask(next)) => {
            d.ignore();
            return next;
        }
        Some(gather::Step::Broken) => {
            // The macro of the entity has reported the reason.
            d.ignore();
            return expand::poisoned(&declared);
        }
        None => return d.finish(),
    };
    let hints = Hints::operation(&entities.args);
    let Some(parsed) = Parsed::read(&declared, entities.args.clone(), &mut d) else {
        let (errors, item) = (d.finish(), expand::poisoned(&declared));
        let hints = hints.call(&entities.own.krate, &declared.entity, []);
        return quote!(#errors #item #hints);
    };
    let mut scope = Scope::new(&entities.own, &declared.entity, &entities.siblings, &mut d);
    let model = Model::resolve(parsed, &mut scope);
    check::check(&model, &mut scope);
    let results = ScopeResults::of(scope);
    let sound = d.is_empty();
    let errors = d.finish();
    let hints = hints.call(&entities.own.krate, &declared.entity, &results.named);
    let item = match Expansion::of(&model, &entities, &results) {
        Some(expansion) => expand::expand(&expansion, sound),
        None => expand::poisoned(&declared),
    };
    quote!(#errors #item #hints)
}
