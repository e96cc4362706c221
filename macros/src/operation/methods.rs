//! The expansion of a collection: for each of its methods, a descriptor and an adapter method.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Visibility;
use syn::ext::IdentExt;

use super::expand::{Expansion, impl_attributes, name_span, policy};
use super::item::Declared;
use super::kinds::Part;
use super::path::path_text;
use crate::expr::{at, in_same_module, index, position_in};
use crate::lints;

/// Returns one static for each method, and the call `.parts(..)` that lists them in the descriptor.
pub(super) fn parts(model: &Expansion<'_>) -> (TokenStream, TokenStream) {
    let doc = model.declared.doc();
    let entity = model.declared.entity.to_token_stream();
    let statics = model
        .plan
        .parts
        .iter()
        .zip(model.routes)
        .map(|(part, (method, segments))| {
            let (ident, name, kind) = (constant(part), full_name(model, part), &part.descriptor);
            let params = params(model, part);
            let policy = match &part.policy {
                Some(own) => {
                    // The policy of a method replaces the common policy, key by key.
                    let (own, common) = (own.tokens(&entity), model.route.policy.tokens(&entity));
                    Some(quote!(.policy(#own.or(#common))))
                }
                None => policy(&model.route.policy, &entity),
            };
            let doc = (!doc.is_empty()).then(|| quote!(.doc(#doc)));
            let unscoped = model.unscoped.map(|reason| quote!(.unscoped(#reason)));
            quote! {
                static #ident: __lp::OpSpec = __lp::OpSpec::new(#name, &#kind)
                    .params(&[#(#params),*])
                    .routes(&[#method(&[#(#segments),*])])
                    #policy
                    #unscoped
                    #doc;
            }
        });
    let names = model.plan.parts.iter().map(constant);
    (quote!(#(#statics)*), quote!(.parts(&[#(&#names),*])))
}

/// Returns a const that `package!` uses when it lists the operation. If no package lists the
/// operation, rustc warns about the unused const, and its name gives the reason. An operation
/// without a route needs no package.
pub(super) fn listed(model: &Expansion<'_>) -> Option<TokenStream> {
    let Declared {
        vis: Visibility::Public(_),
        ident,
        ..
    } = model.declared
    else {
        return None;
    };
    if model.routes.is_empty() || model.route.policy.disabled {
        return None;
    }
    let name = in_no_package(&ident.unraw().to_string(), ident.span())?;
    // All tokens have the span of the app's token: rustc does not warn about an item that has spans
    // of a macro.
    Some(at(
        quote!(pub(crate) const #name: () = ();),
        &ident.to_token_stream(),
    ))
}

/// Returns `PUBLISH_IS_IN_NO_PACKAGE`; `None` if the const's name does not follow the convention
/// for consts.
pub(crate) fn in_no_package(operation: &str, span: Span) -> Option<Ident> {
    let fits = !operation.contains(char::is_lowercase);
    fits.then(|| Ident::new(&format!("{operation}_IS_IN_NO_PACKAGE"), span))
}

fn constant(part: &Part) -> syn::Ident {
    format_ident!("{}", part.name.to_uppercase())
}

fn full_name(model: &Expansion<'_>, part: &Part) -> String {
    format!("{}_{}", model.name, part.name)
}

/// Returns the parameters of the record, the item and the body, in this order.
fn params(model: &Expansion<'_>, part: &Part) -> Vec<TokenStream> {
    let (primary, field) = (
        model.entity.number(model.entity.primary.unwrap_or(0)),
        model.entity.number(model.plan.list),
    );
    let item = part.has_item_key.then(|| quote!(__lp::in_item(#field)));
    let body = part.body_form.map(|form| {
        let form = format_ident!("{form}");
        quote!(__lp::whole(#field, __lp::Whole::#form))
    });
    std::iter::once(quote!(__lp::in_id("id", #primary)))
        .chain(item)
        .chain(body)
        .collect()
}

/// The adapter methods.
pub(super) fn methods(model: &Expansion<'_>) -> TokenStream {
    let Declared {
        vis, ident, entity, ..
    } = model.declared;
    let krate = &model.entity.krate;
    let adapter = &model.entity.generated.adapter;
    let position =
        |field: usize| position_in(model.entity, entity, field, &entity.to_token_stream());
    let (id, list) = (
        position(model.entity.primary.unwrap_or(0)),
        position(model.plan.list),
    );
    let adapter = in_same_module(entity, &quote!(#adapter));
    let (item, patch) = (
        quote!(#krate::entity::ItemAt<#list>),
        quote!(#krate::entity::ItemPatchAt<#list>),
    );
    let base = &model.entity.base_path();
    let (impl_attributes, deprecated) = (
        impl_attributes(model),
        lints::deprecated(&model.declared.attrs),
    );
    let methods = model.plan.parts.iter().zip(model.routes).enumerate().map(
        |(at, (part, (http, segments)))| {
            let name = format_ident!("{}", full_name(model, part), span = ident.span());
            let at = index(at);
            let (what, read, answer) = match part.name {
                "list" => (
                    "The items, in their order.",
                    "json",
                    quote!(#krate::ValueAt<#list>),
                ),
                "add" => ("Appends an item.", "json", item.clone()),
                "remove" => ("Removes an item.", "nothing", quote!(())),
                "update" => ("Changes members of an item.", "json", item.clone()),
                _ => (
                    "Replaces all items.",
                    "json",
                    quote!(#krate::ValueAt<#list>),
                ),
            };
            let read = Ident::new(read, name_span(ident));
            let item_id = part
                .has_item_key
                .then(|| quote!(item_id: impl ::core::convert::Into<::std::string::String>,));
            let item_arg = part.has_item_key.then(|| quote!(__lp::text_arg(item_id),));
            let (body, body_arg) = match part.body_form {
                Some("Item") => (quote!(item: #item,), quote!(__lp::item_arg(&item),)),
                Some("Patch") => (quote!(patch: #patch,), quote!(__lp::item_patch_arg(patch),)),
                Some(_) => (
                    quote!(items: ::std::vec::Vec<#item>,),
                    quote!(__lp::arg::<#list>(items),),
                ),
                None => (TokenStream::new(), TokenStream::new()),
            };
            let route = format!(
                "Over HTTP: `{} {}`.",
                http.as_str(),
                path_text(base, segments)
            );
            let doc = format!("{what}\n\n{route}\n\n# Errors\n{}", model.plan.errors);
            quote! {
                #[doc = #doc]
                #deprecated
                #vis fn #name(
                    &self,
                    cx: &#krate::Cx,
                    id: impl ::core::convert::Into<#krate::ValueAt<#id>>,
                    #item_id
                    #body
                ) -> impl #krate::ResultFuture<#answer> {
                    use #krate::__private as __lp;
                    let args = __lp::args([__lp::arg::<#id>(id), #item_arg #body_arg]);
                    __lp::run(self, #ident.spec().parts[#at], cx, args, __lp::answer::#read)
                }
            }
        },
    );
    let listed = listed(model);
    quote_spanned!(name_span(ident)=> #impl_attributes impl #adapter { #listed #(#methods)* })
}
