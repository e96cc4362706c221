//! The static descriptor of an entity.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::computed;
use crate::entity::field::Field;
use crate::entity::model::{EntityModel, IndexField};
use crate::entity::{field_tokens, gates, mounts, relations, search, summaries, visibility};
use crate::expr::literal_of;

pub(super) fn descriptor(model: &EntityModel) -> TokenStream {
    let (name, path, storage) = (&model.name, &model.path, &model.storage_name);
    let fields = (0..model.fields.len())
        .map(|i| field_desc(model, i))
        .chain(visibility::expiry(model));
    let primary = model.number(model.primary.unwrap_or(0));
    let doc = (!model.doc.is_empty()).then(|| {
        let doc = &model.doc;
        quote!(doc: #doc,)
    });
    let namespace = model
        .namespace
        .as_ref()
        .map(|ns| quote!(namespace: __lp::Some(#ns),));
    let indexes = (!model.indexes.is_empty()).then(|| {
        let indexes = model
            .indexes
            .iter()
            .filter(|i| !i.fields.is_empty())
            .map(|index| {
                let fields = index.fields.iter().map(|field| sort_desc(model, field));
                let global = index.global.as_ref().map(|_| quote!(.global()));
                quote!(__lp::index(&[#(#fields),*]) #global)
            });
        quote!(indexes: &[#(#indexes),*],)
    });
    let uniques = (!model.uniques.is_empty()).then(|| {
        let uniques = model
            .uniques
            .iter()
            .filter(|u| !u.fields.is_empty())
            .map(|unique| {
                let fields = unique
                    .fields
                    .iter()
                    .map(|member| model.number(member.field));
                let global = unique.global;
                quote!(__lp::unique(&[#(#fields),*], #global))
            });
        quote!(uniques: &[#(#uniques),*],)
    });
    let sort = (!model.sort.is_empty()).then(|| {
        let keys = model.sort.iter().map(|key| sort_desc(model, key));
        quote!(sort: &[#(#keys),*],)
    });
    let pagination = pagination(model).map(|limits| quote!(pagination: #limits,));
    let paging = model
        .numbered
        .then(|| quote!(paging: __lp::Paging::NUMBER,));
    let version = model.version.as_ref().map(|version| {
        let (field, required) = (model.number(version.field), version.required_on_write);
        quote!(version: __lp::Some(__lp::VersionDesc { field: #field, required_on_write: #required }),)
    });
    let ident = &model.ident;
    let check = model.check.as_ref().map(|check| {
        let call = quote_spanned!(check.span()=> __lp::check::<#ident>(row, #check));
        quote!(check: __lp::Some(|row| #call),)
    });
    let defaults = (!model.defaults.is_inherit()).then(|| {
        let defaults = model.defaults.tokens(&ident.to_token_stream());
        quote!(defaults: #defaults,)
    });
    let routes = model.routes.iter().any(|r| !r.is_inherit()).then(|| {
        let routes = model
            .routes
            .iter()
            .map(|policy| policy.tokens(&ident.to_token_stream()));
        quote!(routes: [#(#routes),*],)
    });
    let mounts = mounts::descriptor(model);
    let stores = (!model.stores.is_empty()).then(|| {
        let stores = model.stores.iter().map(ToString::to_string);
        quote!(stores: &[#(#stores),*],)
    });
    let visibility = visibility::descriptor(model);
    let gates = gates::descriptor(model);
    let relations = relations::descriptor(model);
    let summaries = summaries::descriptor(model);
    let search = search::descriptor(model);
    let poisoned = model.inert.then(|| quote!(poisoned: true,));
    let former_names = &model.rename_from;
    let rename = (!former_names.is_empty()).then(|| quote!(rename_from: &[#(#former_names),*],));
    quote! {
        static DESC: __lp::EntityDesc = __lp::EntityDesc {
            #doc #namespace #indexes #uniques #sort #pagination #paging #version #visibility #gates #relations #summaries #search
            #check #defaults #routes #mounts #stores #rename #poisoned
            ..__lp::entity(#name, #path, #storage, &[#(#fields),*], #primary, __lp::at(::core::file!(), ::core::line!()))
        };
    }
}

fn sort_desc(model: &EntityModel, key: &IndexField) -> TokenStream {
    let field = model.number(key.field);
    if key.desc {
        quote!(__lp::desc(#field))
    } else {
        quote!(__lp::asc(#field))
    }
}

fn field_desc(model: &EntityModel, i: usize) -> TokenStream {
    let field = &model.fields[i];
    let (module, ident) = (&model.generated.module, &field.ident);
    let (name, wire, column) = (&field.name, &field.wire, &field.column);
    if field.generated {
        return quote!(__lp::version_field(#name, #wire, #column));
    }
    let mut flags = field_tokens::flags(field);
    match (model.filterable(i), model.sortable(i)) {
        (true, true) => flags.push(quote!(LISTED)),
        (true, false) => flags.push(quote!(FILTERABLE)),
        (false, true) => flags.push(quote!(SORTABLE)),
        (false, false) => {}
    }
    let options =
        field_tokens::options(field, &flags, &literal_of(field, &quote!(#module::#ident)));
    let computed = computed_desc(model, field);
    let transform = transform(model, field);
    let line = Literal::u32_unsuffixed(field.line);
    quote!(__lp::field::<#module::#ident>(#name, #wire, #column, #line) #options #computed #transform)
}

/// Returns the function of a computed field with its name and digest, and the positions of the
/// fields that it depends on.
fn computed_desc(model: &EntityModel, field: &Field) -> Option<TokenStream> {
    let options = field.options.computed.as_ref().filter(|_| !model.inert)?;
    let (module, ident, function) = (&model.generated.module, &field.ident, &options.function);
    let from = options
        .from
        .iter()
        .filter_map(|name| model.index_of(name))
        .map(|field| model.number(field));
    // Both uses of `row` need the same span, because the function may be written outside of the
    // `macro_rules!` that declares the entity.
    let row = Ident::new("row", Span::call_site());
    let call = quote_spanned!(function.span()=> __lp::compute::<#module::#ident>(#row, #function));
    let name = computed::name(function);
    let body = computed::body(&model.ident, function);
    Some(
        quote!(.computed(__lp::computed_field::<#module::#ident>(#name, #body, |#row| #call, &[#(#from),*]))),
    )
}

/// Returns the function that migrations run for a field.
fn transform(model: &EntityModel, field: &Field) -> Option<TokenStream> {
    let (_, function) = field.options.transform.as_ref().filter(|_| !model.inert)?;
    let (module, ident) = (&model.generated.module, &field.ident);
    // `#[transform]` declares a type with the name of the function. If the attribute is missing,
    // rustc reports "expected type, found function" at the type alias. Without the alias it would
    // read the name as a const argument, and its error would be less clear.
    let desc =
        quote_spanned!(function.span()=> __lp::field_transform::<#module::#ident, __Transform>());
    Some(quote!(.transform({ type __Transform = #function; #desc })))
}

pub(super) fn pagination(model: &EntityModel) -> Option<TokenStream> {
    let args = &model.pagination;
    let default = args
        .default
        .as_ref()
        .map(|limit| quote!(default_limit: #limit,));
    let max = args.max.as_ref().map(|limit| quote!(max_limit: #limit,));
    let unbounded = args
        .unbounded_lookup
        .map(|unbounded| quote!(unbounded_lookup: #unbounded,));
    if default.is_none() && max.is_none() && unbounded.is_none() {
        return None;
    }
    // With all members given, `..` has no effect, and clippy would warn about it in the app.
    let all = default.is_some() && max.is_some() && unbounded.is_some();
    let rest = (!all).then(|| quote!(..__lp::Pagination::DEFAULT));
    Some(quote!(__lp::Pagination { #default #max #unbounded #rest }))
}
