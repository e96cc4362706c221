//! The expansion of `#[entity]`: the struct, markers, inputs, adapter and one static descriptor. It
//! cannot fail.
//!
//! It contains data and calls into the runtime, but no logic: a body longer than a few lines needs
//! a function in `__private`.

mod assertions;
mod descriptor;
mod input;

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::Visibility;

use self::input::Input;
use super::model::EntityModel;
use super::search::Search;
use super::summaries::Summary;
use super::{docs, gates, relations};
use crate::editor::Hints;
use crate::lints;
use crate::policy::Policy;

/// Expands everything except the schema macro.
pub(crate) fn expand(model: &EntityModel, hints: Hints) -> TokenStream {
    let item = &model.item;
    let markers = markers(model);
    let create = input::input(model, Input::Create);
    let patch = input::input(model, Input::Patch);
    let adapter_and_query = adapter_and_query(model);
    let fields = field_impls(model);
    let desc = descriptor::descriptor(model);
    let (links, entity) = (gates::links(model), entity_impl(model));
    let inputs = [
        input::input_impl(model, Input::Create),
        input::input_impl(model, Input::Patch),
    ];
    let adapter = crate::SERVER.then(|| adapter_impls(model));
    let assertions = assertions::assertions(model);
    let consts = relations::consts(model);
    let krate = &model.krate;
    let hints = hints.call(krate, &model.ident, &named_fields(model));
    let allow = lints(model);
    let consts = consts.map(|consts| quote!(#allow #consts));
    quote! {
        #[allow(dead_code)] // an app may never read some fields
        #item
        #markers
        #create
        #patch
        #adapter_and_query
        #consts
        #allow
        const _: () = {
            use #krate::__private as __lp;
            #fields
            #links
            #desc
            #entity
            #(#inputs)*
            #adapter
            #assertions
        };
        #hints
    }
}

/// The lints that generated items allow. `deprecated` is one of them if a field is deprecated,
/// because the generated items use the field.
fn lints(model: &EntityModel) -> TokenStream {
    lints::allowed(
        &model.item.attrs,
        model.item.fields.iter().flat_map(|field| &field.attrs),
    )
}

/// The fields that the entity's options name.
fn named_fields(model: &EntityModel) -> Vec<syn::Ident> {
    let indexes = model.indexes.iter().flat_map(|index| &index.fields);
    let index_fields = indexes
        .chain(model.uniques.iter().flat_map(|unique| &unique.fields))
        .chain(&model.sort)
        .map(|place| &place.ident);
    let keys = model.relations.iter().filter_map(relations::Relation::key);
    let computed = model
        .fields
        .iter()
        .filter_map(|field| field.options.computed.as_ref())
        .flat_map(|computed| &computed.from);
    let policies = model
        .routes
        .iter()
        .chain([&model.defaults])
        .flat_map(Policy::named_fields);
    let searched = model.search.iter().flat_map(Search::named_fields);
    let written = index_fields
        .chain(model.visibility.named_fields())
        .chain(keys)
        .chain(computed)
        .chain(policies)
        .chain(searched)
        .cloned();
    let named = written
        .chain(model.gates.named_fields())
        .chain(model.summaries.iter().flat_map(Summary::named_fields));
    // A hint for a name that is no field would only add an error in the editor.
    named
        .filter(|ident| model.index_of(ident).is_some())
        .collect()
}

fn markers(model: &EntityModel) -> TokenStream {
    let (vis, module, allow) = (&model.vis, &model.generated.module, lints(model));
    let doc = docs::module(&model.name);
    let inner = from_inside(vis);
    let structs = model.fields.iter().map(|field| {
        let (ident, doc) = (
            &field.ident,
            docs::marker(&model.name, &field.name, &field.doc),
        );
        quote! {
            #[doc = #doc]
            #inner struct #ident;
        }
    });
    quote! {
        #[doc = #doc]
        #allow
        #[allow(non_camel_case_types, dead_code, clippy::module_inception)] // modules and structs have the names of fields; operations use only some
        #vis mod #module { #(#structs)* }
    }
}

/// Returns the visibility that an item in a nested module needs, to be visible as far as `vis`.
fn from_inside(vis: &Visibility) -> TokenStream {
    match vis {
        Visibility::Inherited => quote!(pub(super)),
        Visibility::Restricted(restricted) => {
            let path = &restricted.path;
            match path
                .segments
                .first()
                .map(|s| s.ident.to_string())
                .as_deref()
            {
                Some("self") => quote!(pub(super)),
                Some("super") => quote!(pub(in super::#path)),
                _ => vis.to_token_stream(),
            }
        }
        Visibility::Public(_) => vis.to_token_stream(),
    }
}

fn adapter_and_query(model: &EntityModel) -> TokenStream {
    let (vis, ident, krate) = (&model.vis, &model.ident, &model.krate);
    let (adapter, query) = (&model.generated.adapter, &model.generated.list_query);
    let allow = lints(model);
    let (query_doc, adapter_doc) = (docs::list_query(&model.name), docs::adapter(&model.name));
    let adapter_struct = crate::SERVER.then(|| {
        quote! {
            #[doc = #adapter_doc]
            #allow
            #[derive(::core::clone::Clone, ::core::fmt::Debug)]
            #[allow(dead_code)] // an app may use the routes only
            #vis struct #adapter(#krate::Adapter<#ident>);
        }
    });
    quote! {
        #[doc = #query_doc]
        #allow
        #[allow(dead_code)] // an app may never use it
        #vis type #query = #krate::entity::ListQuery<#ident>;
        #adapter_struct
    }
}

fn field_impls(model: &EntityModel) -> TokenStream {
    let (ident, module) = (&model.ident, &model.generated.module);
    let fields = model.fields.iter().enumerate().map(|(i, field)| {
        let (name, ty, index) = (&field.ident, &field.ty, Literal::usize_unsuffixed(i));
        quote!(#index #module::#name: #ty,)
    });
    quote!(__lp::fields! { #ident #(#fields)* })
}

fn entity_impl(model: &EntityModel) -> TokenStream {
    let (ident, module, generated) = (&model.ident, &model.generated.module, &model.generated);
    let (adapter, create, patch) = (&generated.adapter, &generated.create, &generated.patch);
    // Without a key the declaration has an error already, so any type will do.
    let id = model.primary.map_or_else(
        || quote!(::std::string::String),
        |i| model.fields[i].inner.to_token_stream(),
    );
    let members = model.fields.iter().map(|field| {
        let name = &field.ident;
        quote!(#name: __lp::read::<#module::#name>(row)?)
    });
    let row = if model.fields.is_empty() {
        quote!(_)
    } else {
        quote!(row)
    };
    let adapter = if crate::SERVER {
        quote!(#adapter)
    } else {
        quote!(())
    };
    let adapter = quote!(type Adapter = #adapter;);
    quote! {
        impl __lp::EntityParts for #ident {
            const DESC: &'static __lp::EntityDesc = &DESC;
            #adapter
            type Id = #id;
            type Create = #create;
            type Patch = #patch;
            fn read(#row: &dyn __lp::Row) -> ::core::result::Result<Self, __lp::DecodeError> {
                ::core::result::Result::Ok(Self { #(#members),* })
            }
        }
    }
}

fn adapter_impls(model: &EntityModel) -> TokenStream {
    let (ident, adapter) = (&model.ident, &model.generated.adapter);
    quote! {
        impl ::core::convert::From<__lp::Adapter<#ident>> for #adapter {
            fn from(adapter: __lp::Adapter<#ident>) -> Self { Self(adapter) }
        }
        impl ::core::ops::Deref for #adapter {
            type Target = __lp::Adapter<#ident>;
            fn deref(&self) -> &Self::Target { &self.0 }
        }
        impl<S: ::core::marker::Sync> __lp::FromRequestParts<S> for #adapter {
            type Rejection = __lp::Error;
            fn from_request_parts(parts: &mut __lp::Parts, _: &S) -> impl ::core::future::Future<Output = __lp::Result<Self>> {
                ::core::future::ready(__lp::adapter_of::<#ident>(parts))
            }
        }
    }
}
