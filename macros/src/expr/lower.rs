//! Descriptors of resolved expressions. The generated code imports the private module of the
//! runtime crate as `__lp`.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;

use crate::entity::{EntityModel, Field, field_number};

use super::scope::{Assign, Cond, Resolved, Scope, Value};
use super::source::CtxPath;

/// Returns the same tokens with the span of the first token of `to`.
///
/// rustc would underline a path with tokens from several positions across lines, so every token of
/// it gets the span of the app's token.
pub(crate) fn at(tokens: TokenStream, to: &TokenStream) -> TokenStream {
    let span = to
        .clone()
        .into_iter()
        .next()
        .map_or_else(Span::call_site, |t| t.span());
    spanned(tokens, span)
}

fn spanned(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|tree| match tree {
            TokenTree::Group(group) => {
                let mut moved = Group::new(group.delimiter(), spanned(group.stream(), span));
                moved.set_span(span);
                TokenTree::Group(moved)
            }
            mut other => {
                other.set_span(span);
                other
            }
        })
        .collect()
}

/// Returns the marker of a field, with the span of the app's token.
pub(crate) fn marker(scope: &Scope<'_>, field: usize, to: &TokenStream) -> TokenStream {
    let position = position(scope, field, to);
    at(quote!(__lp::F<#position>), to)
}

/// Returns `Post, 3`: an entity and the position of one of its fields. The expansion uses
/// positions, because the module of the markers may not be in scope of the operation.
pub(crate) fn position(scope: &Scope<'_>, field: usize, to: &TokenStream) -> TokenStream {
    position_in(scope.model, scope.entity, field, to)
}

/// Returns the same as [`position`], for an entity without a scope.
pub(crate) fn position_in(
    model: &EntityModel,
    entity: &syn::Path,
    field: usize,
    to: &TokenStream,
) -> TokenStream {
    let field = model.number(field);
    at(quote!(#entity, #field), to)
}

/// Replaces the last segment of the entity's path, to name an item in the same module.
pub(crate) fn in_same_module(entity: &syn::Path, name: &TokenStream) -> TokenStream {
    let leading = &entity.leading_colon;
    let before = entity
        .segments
        .iter()
        .take(entity.segments.len().saturating_sub(1))
        .map(|segment| &segment.ident);
    quote!(#leading #(#before::)* #name)
}

/// `__lp::literal::<post::status>`.
pub(crate) fn literal_of(field: &Field, marker: &TokenStream) -> TokenStream {
    let literal = if field.optional {
        quote!(some_literal)
    } else {
        quote!(literal)
    };
    quote!(__lp::#literal::<#marker>)
}

/// `|| __lp::of::<Post, 3>(value)`.
pub(super) fn literal(
    scope: &Scope<'_>,
    field: usize,
    to: &TokenStream,
    value: &TokenStream,
) -> TokenStream {
    let position = position(scope, field, to);
    let literal = if scope.at(field).optional {
        quote!(some_of)
    } else {
        quote!(of)
    };
    // The call has this span too, because rustc points at the function when a value has the wrong
    // type.
    let literal = at(quote!(__lp::#literal::<#position>), to);
    quote!(|| #literal(#value))
}

/// `&[AssignSpec { .. }, ..]`.
pub(crate) fn assigns(list: &[Assign]) -> TokenStream {
    let list = list.iter().map(|Assign { key, field, value }| {
        let field = field_number(*field, &key.unraw().to_string());
        quote!(__lp::assign(#field, #value))
    });
    quote!(&[#(#list),*])
}

/// `.name(&[..])`; `None` for an empty list, which is the default of the descriptor.
pub(crate) fn unless_empty(name: &str, list: &[Assign]) -> Option<TokenStream> {
    let (name, assigns) = (format_ident!("{name}"), assigns(list));
    (!list.is_empty()).then(|| quote!(.#name(#assigns)))
}

/// A position, without a suffix.
pub(crate) fn index(index: usize) -> proc_macro2::Literal {
    proc_macro2::Literal::usize_unsuffixed(index)
}

/// Writes the variant and its value.
impl ToTokens for CtxPath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::ActorId => quote!(ActorId),
            Self::TenantId => quote!(TenantId),
            Self::ActorKind => quote!(ActorKind),
            Self::SessionId => quote!(SessionId),
            Self::Claim(name) => quote!(Claim(#name)),
            Self::Value(path) => quote!(Value(<#path as __lp::ContextValue>::DESC)),
        });
    }
}

impl ToTokens for Value {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::Param(param) => {
                let param = index(*param);
                quote!(__lp::given(#param))
            }
            Self::Ctx(path) => quote!(__lp::ctx(__lp::CtxPath::#path)),
            Self::Now => quote!(__lp::NOW),
            Self::Null => quote!(__lp::NULL),
            Self::Literal(closure, _) => quote!(__lp::is(#closure)),
        });
    }
}

impl ToTokens for Resolved {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match self {
            Self::All(list) => quote!(__lp::all(&[#(#list),*])),
            Self::Any(list) => quote!(__lp::any(&[#(#list),*])),
            Self::Cond(cond) => quote!(#cond),
        });
    }
}

impl ToTokens for Cond {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let field = field_number(self.field, &self.ident.unraw().to_string());
        let (op, values) = (format_ident!("{}", self.op.variant()), &self.values);
        tokens.extend(if self.list {
            quote!(__lp::among(#field, __lp::Op::#op, &[#(#values),*]))
        } else {
            quote!(__lp::cond(#field, __lp::Op::#op, #(#values)*))
        });
    }
}
