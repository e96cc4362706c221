//! The input structs of create and update, and their conversion for the runtime.

use proc_macro2::TokenStream;
use quote::quote;

use crate::entity::docs;
use crate::entity::field::Field;
use crate::entity::model::EntityModel;
use crate::lints;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Input {
    Create,
    Patch,
}

impl Input {
    /// The fields of the struct. They include private fields, and for updates read-only ones: code
    /// can set them, HTTP cannot.
    fn fields(self, model: &EntityModel) -> impl Iterator<Item = &Field> {
        model.fields.iter().filter(move |f| match self {
            // A read-only field starts with its default.
            Self::Create => !f.server_owned(),
            Self::Patch => (!f.server_owned() || f.code_writes()) && !f.immutable(),
        })
    }

    /// Whether a member is an `Option` of the field's type: an absent one selects the default, or
    /// leaves the field unchanged.
    fn may_be_absent(self, field: &Field) -> bool {
        self == Self::Patch || field.has_default()
    }
}

pub(super) fn input(model: &EntityModel, input: Input) -> TokenStream {
    let vis = &model.vis;
    let (ident, doc, derive) = match input {
        Input::Create => (&model.generated.create, docs::create(&model.name), None),
        Input::Patch => (
            &model.generated.patch,
            docs::patch(&model.name),
            Some(quote!(#[derive(::core::default::Default)])),
        ),
    };
    let lints = super::lints(model);
    let mut nested = false;
    let members: Vec<TokenStream> = input
        .fields(model)
        .map(|field| {
            let (name, vis, ty, doc) = (
                &field.ident,
                &field.vis,
                &field.ty,
                docs::member(&field.name, &field.doc),
            );
            let lints = lints::allowed(&field.attrs, []);
            let absent = input.may_be_absent(field);
            nested |= absent && field.optional;
            let ty = if absent {
                quote!(::core::option::Option<#ty>)
            } else {
                quote!(#ty)
            };
            quote!(#[doc = #doc] #lints #vis #name: #ty,)
        })
        .collect();
    // An app may never use these structs, so unused ones are allowed. An optional member that can
    // be null is an `Option<Option<T>>`: the outer `None` is an absent member, the inner `None` is
    // null, as in a JSON merge patch.
    let allow = if nested {
        quote!(#[allow(dead_code, clippy::option_option)])
    } else {
        quote!(#[allow(dead_code)])
    };
    quote! {
        #[doc = #doc]
        #derive
        #lints
        #allow
        #vis struct #ident { #(#members)* }
    }
}

pub(super) fn input_impl(model: &EntityModel, input: Input) -> TokenStream {
    let module = &model.generated.module;
    let ident = if input == Input::Create {
        &model.generated.create
    } else {
        &model.generated.patch
    };
    let puts: Vec<TokenStream> = input
        .fields(model)
        .map(|field| {
            let name = &field.ident;
            let value = if input.may_be_absent(field) {
                quote!(self.#name)
            } else {
                quote!(__lp::Some(self.#name))
            };
            quote!(__lp::put::<#module::#name>(#value, set);)
        })
        .collect();
    let set = if puts.is_empty() {
        quote!(_)
    } else {
        quote!(set)
    };
    quote! {
        impl __lp::Input for #ident {
            fn write(self, #set: &mut dyn ::core::ops::FnMut(usize, __lp::Value)) { #(#puts)* }
        }
    }
}
