//! The input of `webhook_events!` as written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::token::Bracket;
use syn::{Expr, Ident, Path, Token, bracketed, parenthesized};

use crate::channel::{EventPath, Word};
use crate::diagnostics::Diagnostics;
use crate::list::List;
use crate::options;

mod word {
    syn::custom_keyword!(when);
}

const SHAPE: &str = "help: an entity with its events: `Order: [created, PAY when(total > 100)]`";

/// A catalogue as written.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) sources: Vec<Source>,
    /// The path of the crate `linchpin-webhooks`.
    pub(super) krate: TokenStream,
}

/// `Order: [created, PAY when(total > 100)]`.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) entity: Path,
    pub(super) events: Vec<Event>,
}

/// `PAY when(total > 100)`.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) path: EventPath,
    pub(super) when: Option<Expr>,
}

/// A source, or the option `crate`.
enum Part {
    Source(Path, Vec<(Ident, Option<Expr>)>),
    Crate(Path),
}

impl Parse for Part {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            return input.call(Path::parse_mod_style).map(Self::Crate);
        }
        let with_shape =
            |error: syn::Error| syn::Error::new(error.span(), format!("{error}\n{SHAPE}"));
        let entity = input.call(Path::parse_mod_style).map_err(with_shape)?;
        input.parse::<Token![:]>().map_err(with_shape)?;
        if !input.peek(Bracket) {
            return Err(with_shape(input.error("expected square brackets")));
        }
        let list;
        bracketed!(list in input);
        let mut events = Vec::new();
        while !list.is_empty() {
            let event: Ident = list.parse().map_err(with_shape)?;
            let mut when = None;
            if list.peek(word::when) {
                list.parse::<word::when>()?;
                let condition;
                parenthesized!(condition in list);
                when = Some(condition.parse()?);
                if !condition.is_empty() {
                    return Err(condition.error("expected one condition"));
                }
            }
            events.push((event, when));
            if !list.is_empty() {
                list.parse::<Token![,]>()?;
            }
        }
        Ok(Self::Source(entity, events))
    }
}

impl Catalogue {
    /// Reads a catalogue. All problems go to `d`.
    pub(super) fn read(input: TokenStream, d: &mut Diagnostics) -> Self {
        let mut catalogue = Self {
            sources: Vec::new(),
            krate: quote!(::linchpin_webhooks),
        };
        for part in options::each::<Part>(List::from(input), d) {
            match part {
                Part::Crate(path) => catalogue.krate = quote!(#path),
                Part::Source(entity, events) => {
                    let event = |(at, when): (Ident, Option<Expr>)| Event {
                        path: EventPath {
                            entity: entity.clone(),
                            word: Word::of(&at),
                            at,
                        },
                        when,
                    };
                    let events = events.into_iter().map(event).collect();
                    catalogue.sources.push(Source { entity, events });
                }
            }
        }
        catalogue
    }

    /// The entities whose events have conditions.
    pub(super) fn conditional(&self) -> impl Iterator<Item = &Path> {
        let any = |source: &&Source| source.events.iter().any(|event| event.when.is_some());
        self.sources.iter().filter(any).map(|source| &source.entity)
    }

    /// The events in their order.
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.sources.iter().flat_map(|source| &source.events)
    }
}
