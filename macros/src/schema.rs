//! Passes the declaration of an entity to its operations, projections and channels.
//!
//! `#[entity]` emits a `macro_rules!` with the entity's name: its schema macro. An operation
//! expands to a call of this macro. The schema macro calls `__operation!` with the unchanged
//! declaration of the entity, which the same parser reads into the same [`EntityModel`]. So every
//! token keeps its span.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Visibility, braced};

use crate::diagnostics::Diagnostics;
use crate::entity::EntityModel;
use crate::{channel, operation, projection, sse, webhooks};

/// Returns the macro with the entity's name; `args` and `item` are the unchanged declaration of the
/// entity.
pub(crate) fn emit(model: &EntityModel, args: &TokenStream, item: &TokenStream) -> TokenStream {
    let (schema, ident, krate) = (&model.generated.schema, &model.ident, &model.krate);
    // A `macro_rules!` can only be re-exported within the crate. Operations are in the crate of
    // their entity anyway.
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
        #[allow(unused_imports)] // an entity may have no operations, or only in this module
        #vis use #schema as #ident;
    }
}

/// The input of `__operation!`.
#[derive(Debug)]
pub(crate) struct SchemaInput {
    /// The arguments of `#[operation]`, or those of another macro.
    pub(crate) args: TokenStream,
    /// The item with the attribute.
    pub(crate) item: TokenStream,
    entity_args: TokenStream,
    entity_item: TokenStream,
}

impl SchemaInput {
    /// The entity's declaration: its arguments and its item.
    pub(crate) fn declaration(&self) -> (TokenStream, TokenStream) {
        (self.entity_args.clone(), self.entity_item.clone())
    }
}

/// Expands `__operation!`: calls the second step of the macro to which the arguments belong.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let Some(input) = d.take(syn::parse2::<SchemaInput>(input)) else {
        return d.finish();
    };
    d.ignore();
    if projection::ProjectionInput::is(&input.args) {
        projection::expand(input)
    } else if channel::SecondStepArgs::is(&input.args) {
        channel::expand(input)
    } else if sse::SecondStepArgs::is(&input.args) {
        sse::expand(input)
    } else if webhooks::SecondStepArgs::is(&input.args) {
        webhooks::expand(input)
    } else {
        operation::expand(input)
    }
}

/// Returns the model of a declaration. Its errors are not repeated here: `#[entity]` reports them.
pub(crate) fn model(args: TokenStream, item: TokenStream) -> Option<EntityModel> {
    let mut d = Diagnostics::new();
    let model = EntityModel::parse(args, item, &mut d);
    d.ignore();
    model
}

impl Parse for SchemaInput {
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
