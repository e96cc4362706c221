//! How an operation learns about its entity.
//!
//! `#[entity]` emits a `macro_rules!` of the entity's own name. An operation expands to a call of
//! it; it calls back into `__operation!` with the entity's declaration **verbatim**, which is read
//! by the same parser into the same [`EntityModel`]. One mechanism, no second format, and every
//! token keeps its span.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Visibility, braced};

use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::{operation, projection};

/// The macro of the entity's name; `args` and `item` are the entity's declaration as it came in.
pub(crate) fn emit(model: &EntityModel, args: &TokenStream, item: &TokenStream) -> TokenStream {
    let (schema, ident, krate) = (&model.generated.schema, &model.ident, &model.krate);
    // A `macro_rules!` cannot be re-exported further than the crate; operations stand in the crate
    // of their entity anyway.
    let vis = match &model.vis {
        Visibility::Public(_) => quote!(pub(crate)),
        vis => quote!(#vis),
    };
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros)] // an entity may have no operations
        macro_rules! #schema {
            ({$($args:tt)*} {$($item:tt)*}) => {
                #krate::__private::__operation! { {$($args)*} {$($item)*} {#args} {#item} }
            };
        }
        #[doc(hidden)]
        #[allow(unused_imports)] // likewise
        #vis use #schema as #ident;
    }
}

/// The input of `__operation!`.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The arguments of `#[operation]`.
    pub(crate) args: TokenStream,
    /// The const under it.
    pub(crate) item: TokenStream,
    entity_args: TokenStream,
    entity_item: TokenStream,
}

impl Handed {
    /// The entity's declaration: its arguments and its item.
    pub(crate) fn declaration(&self) -> (TokenStream, TokenStream) {
        (self.entity_args.clone(), self.entity_item.clone())
    }
}

/// The data that the schema macro of an entity passes to its caller.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let Some(handed) = d.take(syn::parse2::<Handed>(input)) else {
        return d.finish();
    };
    d.ignore();
    if projection::Asked::is(&handed.args) {
        projection::expand(handed)
    } else {
        operation::expand(handed)
    }
}

/// The model of a declaration. Its own problems are not repeated here: `#[entity]` reports them.
pub(crate) fn model(args: TokenStream, item: TokenStream) -> Option<EntityModel> {
    let mut d = Diagnostics::new();
    let model = EntityModel::parse(args, item, &mut d);
    d.ignore();
    model
}

impl Parse for Handed {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let group = || {
            let content;
            braced!(content in input);
            content.parse::<TokenStream>()
        };
        Ok(Self {
            args: group()?,
            item: group()?,
            entity_args: group()?,
            entity_item: group()?,
        })
    }
}
