//! Relations as a member of the descriptor, as consts of the struct, and the checks that need
//! types. The generated code imports the private module of the runtime crate as `__lp`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;

use super::{OnDelete, Relation, Side};
use crate::entity::model::EntityModel;
use crate::entity::{Kind, check};
use crate::expr::at;
use crate::names;

/// `relations: &[..],`; `None` if there are none.
pub(crate) fn descriptor(model: &EntityModel) -> Option<TokenStream> {
    if model.relations.is_empty() || model.inert {
        return None;
    }
    let relations = model.relations.iter().map(|relation| {
        let (name, wire, target) = (name(relation), wire(relation), &relation.target);
        let entity = at(
            quote!(<#target as __lp::Entity>::DESC),
            &target.to_token_stream(),
        );
        match relation.side {
            Side::BelongsTo => {
                let key = model.number(relation.field.unwrap_or_default());
                let on_delete = match relation.on_delete {
                    Some((_, OnDelete::Restrict)) => {
                        Some(quote!(.on_delete(__lp::OnDelete::Restrict)))
                    }
                    Some((_, OnDelete::SetNull)) => {
                        Some(quote!(.on_delete(__lp::OnDelete::SetNull)))
                    }
                    Some((_, OnDelete::Cascade)) => {
                        Some(quote!(.on_delete(__lp::OnDelete::Cascade)))
                    }
                    Some((_, OnDelete::None)) | None => None,
                };
                quote!(__lp::Relation::belongs_to(#name, #wire, || #entity, #key) #on_delete)
            }
            Side::HasMany => {
                let key = relation.key.unraw().to_string();
                let max = relation.max.as_ref().map(|max| quote!(.max(#max)));
                quote!(__lp::Relation::has_many(#name, #wire, || #entity, #key) #max)
            }
        }
    });
    Some(quote!(relations: &[#(#relations),*],))
}

/// `Post::AUTHOR`, for use in code.
pub(crate) fn consts(model: &EntityModel) -> Option<TokenStream> {
    if model.relations.is_empty() || model.inert || !crate::SERVER {
        return None;
    }
    let (ident, vis, krate) = (&model.ident, &model.vis, &model.krate);
    let consts = model.relations.iter().map(|relation| {
        let (name, target) = (name(relation), &relation.target);
        let constant = format_ident!("{}", names::snake(&name).to_uppercase(), span = relation.name.span());
        let (side, doc) = match relation.side {
            Side::BelongsTo => (quote!(One), format!(" The relation `{name}`, for `related`.")),
            Side::HasMany => (quote!(Many), format!(" The relation `{name}`, for `related_pages`.")),
        };
        quote! {
            #[doc = #doc]
            #vis const #constant: #krate::entity::#side<#ident, #target> = #krate::entity::#side::new(#name);
        }
    });
    Some(quote! {
        #[allow(dead_code, private_interfaces)] // an app may use only `include`
        impl #ident { #(#consts)* }
    })
}

/// Asserts that the key has the type of the other entity's ids, and that clients can request
/// further pages of a `has_many`.
pub(crate) fn assertions(model: &EntityModel) -> TokenStream {
    let mut out = TokenStream::new();
    for relation in &model.relations {
        let (key, target) = (relation.key.unraw().to_string(), &relation.target);
        let target_name = check::type_text(&syn::parse_quote!(#target));
        let span = relation.key.span();
        match (relation.side, relation.field) {
            (Side::BelongsTo, Some(field)) => {
                let field = &model.fields[field];
                let (module, ident) = (&model.generated.module, &field.ident);
                let marker = at(quote!(#module::#ident), &relation.key.to_token_stream());
                let found = match field.kind {
                    Kind::Other => "another type".to_owned(),
                    _ => check::kind_text(field),
                };
                let string_key_message = format!(
                    "linchpin: key `{key}` is {found}, `{target_name}` has string ids\nhelp: make it a `String`"
                );
                let integer_key_message = format!(
                    "linchpin: key `{key}` is {found}, `{target_name}` has integer ids\nhelp: make it an `i64`"
                );
                // The same tokens as in the descriptor, so that a wrong entity causes one error,
                // not two.
                let target = at(
                    quote!(<#target as __lp::Entity>::DESC),
                    &target.to_token_stream(),
                );
                out.extend(quote_spanned!(span=> const _: () = __lp::expect_relation::<#marker>(#target, #string_key_message, #integer_key_message);));
                if let Some((rule, OnDelete::Restrict | OnDelete::SetNull | OnDelete::Cascade)) =
                    &relation.on_delete
                {
                    let text = format!(
                        "linchpin: `ttl` on `{target_name}` expires records without a deletion, so on_delete would have no effect\n\
                         help: leave on_delete out, or remove `ttl` from `{target_name}`"
                    );
                    out.extend(quote_spanned!(rule.span()=> const _: () = __lp::expect_lasting(#target, #text);));
                }
            }
            (Side::HasMany, _) => {
                let ident = &model.ident;
                let own_name = &model.name;
                let string_key_message = format!(
                    "linchpin: key `{key}` of `{target_name}` is not a string, but `{own_name}` has string ids\nhelp: make it a `String`"
                );
                let integer_key_message = format!(
                    "linchpin: key `{key}` of `{target_name}` is not an integer, but `{own_name}` has integer ids\nhelp: make it an `i64`"
                );
                let page = format!(
                    "linchpin: the list of `{target_name}` does not filter by `{key}`: further pages of `{}` cannot be requested\nhelp: write \
                     `belongs_to(.., key = {key})` on `{target_name}`, or mark the field `filterable`",
                    name(relation)
                );
                let hidden = format!(
                    "linchpin: the `output` of the list of `{target_name}` leaves `{key}` out, so the list does not filter by it: further pages of \
                     `{}` cannot be requested\nhelp: name `{key}` in that `output`",
                    name(relation)
                );
                let own = at(
                    quote!(<#ident as __lp::Entity>::DESC),
                    &relation.key.to_token_stream(),
                );
                let target = at(
                    quote!(<#target as __lp::Entity>::DESC),
                    &target.to_token_stream(),
                );
                let messages = quote!([#string_key_message, #integer_key_message, #page, #hidden]);
                out.extend(quote_spanned!(span=> const _: () = __lp::expect_many(#target, #key, #own, #messages);));
            }
            (Side::BelongsTo, None) => {}
        }
    }
    out
}

fn name(relation: &Relation) -> String {
    relation.name.unraw().to_string()
}

fn wire(relation: &Relation) -> String {
    names::camel(&name(relation))
}
