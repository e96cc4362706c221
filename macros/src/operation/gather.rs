//! Operations that name several entities: their declarations are collected one after the other.
//!
//! The macro of an entity passes on all arguments of its call. So the declarations collected so far
//! are passed before the operation's own arguments, after an `@`, from one entity's macro to the
//! next.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token, braced};

use super::args::Args;
use super::item::Declared;
use super::kinds;
use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::expr::Sibling;
use crate::schema::{self, Handed};

/// A declaration as an entity's macro passes it.
type Declaration = (TokenStream, TokenStream);

/// The declarations so far.
struct Gathered {
    /// The declaration of the operation's own entity.
    own: Option<Declaration>,
    siblings: Vec<(Path, Declaration)>,
    /// The entity whose macro is called next.
    wanted: Option<Path>,
    /// The operation's own arguments.
    args: TokenStream,
}

/// All entities that an operation names.
pub(super) struct Entities {
    pub(super) own: EntityModel,
    pub(super) siblings: Vec<Sibling>,
    pub(super) args: TokenStream,
}

/// The next step.
pub(super) enum Step {
    /// All declarations are present.
    Done(Box<Entities>),
    /// The macro of another entity must be called.
    Ask(TokenStream),
    /// An entity has an error, which it reports itself.
    Broken,
}

/// Adds the declaration that an entity's macro passed.
pub(super) fn step(handed: Handed, declared: &Declared, d: &mut Diagnostics) -> Option<Step> {
    let declaration = handed.declaration();
    let mut gathered = d.take(syn::parse2::<Gathered>(handed.args))?;
    match gathered.wanted.take() {
        Some(path) => gathered.siblings.push((path, declaration)),
        None => gathered.own = Some(declaration),
    }
    let text = |path: &Path| path.to_token_stream().to_string();
    let own = text(&declared.entity);
    let known = |path: &Path| {
        text(path) == own
            || gathered
                .siblings
                .iter()
                .any(|(other, _)| text(other) == text(path))
    };
    let mut ignored = Diagnostics::new();
    let named = kinds::entities(
        &Args::parse(gathered.args.clone(), &mut ignored),
        &mut ignored,
    );
    ignored.ignore();
    if let Some(next) = named.into_iter().find(|path| !known(path)) {
        let (own_args, own_item) = gathered.own?;
        let siblings = gathered
            .siblings
            .iter()
            .map(|(path, (args, item))| quote!({#path} {#args} {#item}));
        let (args, item) = (&gathered.args, handed.item);
        return Some(Step::Ask(
            quote!(#next! { {@ { {#next} {#own_args} {#own_item} #(#siblings)* } #args} {#item} }),
        ));
    }
    let (own_args, own_item) = gathered.own?;
    let Some(own) = schema::model(own_args, own_item) else {
        return Some(Step::Broken);
    };
    let mut siblings = Vec::new();
    for (path, (args, item)) in gathered.siblings {
        let Some(model) = schema::model(args, item) else {
            return Some(Step::Broken);
        };
        siblings.push(Sibling { path, model });
    }
    Some(Step::Done(Box::new(Entities {
        own,
        siblings,
        args: gathered.args,
    })))
}

impl Parse for Gathered {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(Token![@]) {
            return Ok(Self {
                own: None,
                siblings: Vec::new(),
                wanted: None,
                args: input.parse()?,
            });
        }
        input.parse::<Token![@]>()?;
        let state;
        braced!(state in input);
        let group = || {
            let content;
            braced!(content in state);
            content.parse::<TokenStream>()
        };
        let wanted = Some(syn::parse2(group()?)?);
        let own = Some((group()?, group()?));
        let mut siblings = Vec::new();
        while !state.is_empty() {
            siblings.push((syn::parse2(group()?)?, (group()?, group()?)));
        }
        Ok(Self {
            own,
            siblings,
            wanted,
            args: input.parse()?,
        })
    }
}
