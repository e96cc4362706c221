//! `#[entity]`: parse → model → check → expand.

mod check;
mod check_computed;
mod check_field;
mod check_names;
mod check_rules;
mod date;
mod docs;
mod embedded;
mod expand;
mod field;
mod field_enum;
mod field_tokens;
mod foreign_types;
mod gates;
pub(crate) mod grants;
mod model;
mod mounts;
mod numbers;
mod parse;
mod parse_field;
mod relations;
mod rules;
mod search;
mod summaries;
#[cfg(test)]
mod tests;
mod visibility;

use proc_macro2::TokenStream;
use quote::quote;

use crate::diagnostics::Diagnostics;
use crate::editor::Hints;
use crate::fragments::plain;
use crate::{repair, schema};

pub(crate) use check::{hidden, index_text, kind_text};
pub(crate) use check_rules::{admits, check_written};
pub(crate) use date::parse as parse_date;
pub(crate) use embedded::{
    descriptor as member_descriptor, members as variant_members, run as embedded,
};
pub(crate) use field::{Default, Field, Flag, Kind, doc_of};
pub(crate) use field_enum::{attrs_of_variants, run as field_enum};
pub(crate) use model::EntityModel;
#[cfg(test)]
pub(crate) use numbers::FIELD_SUFFIX;
pub(crate) use numbers::field_number;
#[cfg(test)]
pub(crate) use parse::ENTITY_OPTIONS;
pub(crate) use parse::{Member, ROUTES, member, members, read_page_numbers};
#[cfg(test)]
pub(crate) use parse_field::FIELD_OPTIONS;
pub(crate) use parse_field::{attribute_options, krate};
pub(crate) use rules::{Bound, Choice};
pub(crate) use visibility::{Route, reports_public_defaults, unscoped_reason, why_not_public};

/// `#[entity(args)] item`.
pub(crate) fn run(args: &TokenStream, item: &TokenStream) -> TokenStream {
    let (args, item) = (&plain(args.clone()), &plain(item.clone()));
    let mut d = Diagnostics::new();
    let Some(mut model) = EntityModel::parse(args.clone(), item.clone(), &mut d) else {
        // The item is not a struct with named fields: keep it without the `#[field]` attributes,
        // because no macro reads them now.
        let item = without_field_attributes(item.clone());
        let errors = d.finish();
        return quote!(#item #errors);
    };
    check::check(&model, &mut d);
    if !d.is_empty() {
        model.make_inert();
    }
    let hints = Hints::default().offer("entity", args.clone());
    let hints = field_attributes(item)
        .into_iter()
        .fold(hints, |hints, list| hints.offer("field", list));
    let expanded = expand::expand(&model, hints);
    let schema = schema::emit(&model, args, item);
    let errors = d.finish();
    quote!(#expanded #schema #errors)
}

/// Returns the tokens in every `#[field(..)]`.
fn field_attributes(item: &TokenStream) -> Vec<TokenStream> {
    let Ok(item) = repair::item::<syn::ItemStruct>(item) else {
        return Vec::new();
    };
    let attrs = item
        .fields
        .iter()
        .flat_map(|field| &field.attrs)
        .filter(|attr| attr.path().is_ident("field"));
    attrs
        .filter_map(|attr| {
            attr.meta
                .require_list()
                .ok()
                .map(|list| list.tokens.clone())
        })
        .collect()
}

fn without_field_attributes(item: TokenStream) -> TokenStream {
    let Ok(mut parsed) = syn::parse2::<syn::DeriveInput>(item.clone()) else {
        return item;
    };
    let strip = |fields: &mut syn::Fields| {
        for field in fields.iter_mut() {
            field.attrs.retain(|attr| !attr.path().is_ident("field"));
        }
    };
    match &mut parsed.data {
        syn::Data::Struct(data) => strip(&mut data.fields),
        syn::Data::Enum(data) => data
            .variants
            .iter_mut()
            .for_each(|variant| strip(&mut variant.fields)),
        syn::Data::Union(_) => {}
    }
    quote!(#parsed)
}
