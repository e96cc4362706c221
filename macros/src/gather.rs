//! Collects the declarations of all entities that one declaration names, such as a channel.
//!
//! A call of an entity's schema macro passes on all its arguments and adds the declaration of the
//! entity. So the schema macros are called one after the other, and each call adds one declaration.
//! In the arguments, the collected declarations come first, after an `@`; the caller's own
//! arguments follow.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token, braced};

use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::expr::Sibling;
use crate::schema::{self, SchemaInput};

/// The arguments and the item of an entity, as its macro passes them.
type Declaration = (TokenStream, TokenStream);

/// The declarations that are collected so far.
struct Gathered {
    /// The entities and their declarations, in the order of the calls.
    all: Vec<(Path, Declaration)>,
    /// The entity whose macro passes the declaration of this step; `None` in the first step.
    wanted: Option<Path>,
    /// The caller's own arguments.
    args: TokenStream,
}

/// All entities that a declaration names.
pub(crate) struct Entities {
    pub(crate) own: EntityModel,
    pub(crate) siblings: Vec<Sibling>,
    pub(crate) args: TokenStream,
}

/// The next step.
pub(crate) enum Step {
    /// All declarations are present.
    Done(Box<Entities>),
    /// The macro of another entity must be called.
    Ask(TokenStream),
    /// An entity has an error, which the entity's macro reports.
    Broken,
}

/// Adds the declaration that an entity's macro passed. `own` is the entity whose macro is called
/// first; `named` returns the others that the arguments name.
pub(crate) fn step(
    input: SchemaInput,
    own: &Path,
    named: impl FnOnce(&TokenStream, &TokenStream) -> Vec<Path>,
    d: &mut Diagnostics,
) -> Option<Step> {
    let declaration = input.declaration();
    let mut gathered = d.take(syn::parse2::<Gathered>(input.args))?;
    let path = gathered.wanted.take().unwrap_or_else(|| own.clone());
    gathered.all.push((path, declaration));
    let path_text = |path: &Path| path.to_token_stream().to_string();
    let is_collected = |path: &Path| {
        gathered
            .all
            .iter()
            .any(|(other, _)| path_text(other) == path_text(path))
    };
    let (args, item) = (&gathered.args, &input.item);
    if let Some(next) = named(args, item)
        .into_iter()
        .find(|path| !is_collected(path))
    {
        let all = gathered
            .all
            .iter()
            .map(|(path, (args, item))| quote!({#path} {#args} {#item}));
        return Some(Step::Ask(
            quote!(#next! { {@ { {#next} #(#all)* } #args} {#item} }),
        ));
    }
    let mut models = Vec::new();
    for (path, (args, item)) in gathered.all {
        let Some(model) = schema::model(args, item) else {
            return Some(Step::Broken);
        };
        models.push(Sibling { path, model });
    }
    let own = models.remove(0).model;
    Some(Step::Done(Box::new(Entities {
        own,
        siblings: models,
        args: gathered.args,
    })))
}

/// Returns the caller's own arguments, without the declarations before them.
pub(crate) fn own_args(args: &TokenStream) -> TokenStream {
    let trees: Vec<TokenTree> = args.clone().into_iter().collect();
    match &trees[..] {
        [TokenTree::Punct(at), TokenTree::Group(state), rest @ ..]
            if at.as_char() == '@' && state.delimiter() == Delimiter::Brace =>
        {
            rest.iter().cloned().collect()
        }
        _ => args.clone(),
    }
}

impl Parse for Gathered {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !(input.peek(Token![@]) && input.peek2(syn::token::Brace)) {
            return Ok(Self {
                all: Vec::new(),
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
        let mut all = Vec::new();
        while !state.is_empty() {
            all.push((syn::parse2(group()?)?, (group()?, group()?)));
        }
        Ok(Self {
            all,
            wanted,
            args: input.parse()?,
        })
    }
}
