//! The item with the attribute: `pub const PUBLISH: Operation<Post>;`.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, GenericArgument, Ident, Path, PathArguments, Token, Type, Visibility};

use crate::entity::doc_of;

/// The declaration of an operation: a const without a value.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    /// The first and last token. Their spans make the const an item of the app, so that rustc warns
    /// if it is unused.
    pub(crate) ends: (Token![const], Token![;]),
    pub(crate) ident: Ident,
    /// `Operation<Post>`.
    pub(crate) ty: Type,
    /// `Post`, as written.
    pub(crate) entity: Path,
}

impl Declared {
    /// The doc comment.
    pub(crate) fn doc(&self) -> String {
        doc_of(&self.attrs)
    }
}

impl Parse for Declared {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        const SHAPE: &str = "\nhelp: `pub const PUBLISH: Operation<Post>;`";
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if !input.peek(Token![const]) {
            return Err(input.error(format!("an operation must be a const{SHAPE}")));
        }
        let first = input.parse()?;
        let ident: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        let ty: Type = input.parse()?;
        if input.peek(Token![=]) {
            return Err(input.error(format!(
                "leave the value of the operation out: the macro adds it{SHAPE}"
            )));
        }
        let ends = (first, input.parse()?);
        let entity = entity_of(&ty).ok_or_else(|| {
            syn::Error::new_spanned(
                &ty,
                format!("the type of an operation must name its entity{SHAPE}"),
            )
        })?;
        Ok(Self {
            attrs,
            vis,
            ends,
            ident,
            ty,
            entity,
        })
    }
}

/// `Post` of `Operation<Post>`.
fn entity_of(ty: &Type) -> Option<Path> {
    let Type::Path(path) = ty else { return None };
    let last = path
        .path
        .segments
        .last()
        .filter(|last| last.ident == "Operation")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(Type::Path(entity))] => {
            let plain = entity.qself.is_none()
                && entity
                    .path
                    .segments
                    .iter()
                    .all(|segment| segment.arguments.is_none());
            plain.then(|| entity.path.clone())
        }
        _ => None,
    }
}

/// Returns the attributes as tokens. All of them stay on the const: rustc has removed
/// `#[operation]`.
pub(crate) fn attribute_tokens(attrs: &[Attribute]) -> TokenStream {
    attrs.iter().map(quote::ToTokens::to_token_stream).collect()
}
