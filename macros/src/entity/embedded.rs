//! `#[derive(Embedded)]`: a struct that is stored in a list inside a record.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Ident};

use super::field::{Default, Field, Flag};
use super::parse_field::krate;
use super::{check_field, field_tokens, foreign_types};
use crate::diagnostics::{Diagnostics, list};
use crate::fragments::plain;
use crate::lints;
use crate::repair;

/// The derive.
pub(crate) fn run(item: &TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let expanded = d
        .take(repair::item::<DeriveInput>(&plain(item.clone())))
        .and_then(|mut input| {
            let krate = krate(&input.attrs, "field", &mut d);
            match fields(&mut input, &krate, &mut d) {
                Some(fields) => {
                    check(&fields, &mut d);
                    Some(expand(&input, &krate, &fields, !d.is_empty()))
                }
                // A type that is not a struct with named fields still implements the traits of an
                // item, so that lists of it add no errors. A generic type gets no implementation.
                None => input
                    .generics
                    .params
                    .is_empty()
                    .then(|| expand_unreadable(&input.ident, &krate)),
            }
        });
    let errors = d.finish();
    quote!(#expanded #errors)
}

/// Reads the fields of the struct. Returns `None` if the type cannot be an item.
fn fields(input: &mut DeriveInput, krate: &TokenStream, d: &mut Diagnostics) -> Option<Vec<Field>> {
    if !input.generics.params.is_empty() {
        d.error(
            &input.generics,
            format!("item struct `{}` cannot be generic", input.ident),
        )
        .help("leave the parameters out");
        return None;
    }
    if let Data::Struct(syn::DataStruct {
        fields: Fields::Named(named),
        ..
    }) = &mut input.data
    {
        return Some(read(named, krate, d));
    }
    d.error(
        &input.ident,
        format!(
            "Embedded needs a struct with named fields; `{}` is something else",
            input.ident
        ),
    )
    .help(format!("`struct {} {{ .. }}`", input.ident));
    None
}

fn read(named: &mut syn::FieldsNamed, krate: &TokenStream, d: &mut Diagnostics) -> Vec<Field> {
    let field = |f: &mut syn::Field| {
        let name = f
            .ident
            .as_ref()
            .map(|ident| ident.unraw().to_string())
            .unwrap_or_default();
        foreign_types::replace(&name, &mut f.ty, krate, d);
        Field::parse(f, d)
    };
    named.named.iter_mut().map(field).collect()
}

/// Reads and checks named fields that are not the fields of a struct, such as those of a variant.
pub(crate) fn members(
    named: &mut syn::FieldsNamed,
    krate: &TokenStream,
    d: &mut Diagnostics,
) -> Vec<Field> {
    let fields = read(named, krate, d);
    check(&fields, d);
    fields
}

/// Returns the descriptor of a member, without its options if it is `inert`. `__lp` is in scope.
pub(crate) fn descriptor(field: &Field, inert: bool) -> TokenStream {
    let (ty, name, wire, column) = (&field.ty, &field.name, &field.wire, &field.column);
    let options = if inert {
        TokenStream::new()
    } else {
        field_tokens::options(
            field,
            &field_tokens::flags(field),
            &quote!(__lp::item_literal::<#ty>),
        )
    };
    quote!(__lp::item_field::<#ty>(#name, #wire, #column) #options)
}

fn expand_unreadable(ident: &Ident, krate: &TokenStream) -> TokenStream {
    quote! {
        const _: () = {
            use #krate::__private as __lp;
            #[automatically_derived]
            impl __lp::Embedded for #ident {
                const FIELDS: &'static [__lp::FieldDesc] = &[];
                type Patch = __lp::NoPatch;
            }
            #[automatically_derived]
            impl __lp::serde::Serialize for #ident {
                fn serialize<S: __lp::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                    serializer.serialize_unit()
                }
            }
            #[automatically_derived]
            impl<'de> __lp::serde::Deserialize<'de> for #ident {
                fn deserialize<D: __lp::serde::Deserializer<'de>>(_: D) -> ::core::result::Result<Self, D::Error> {
                    ::core::result::Result::Err(__lp::serde::de::Error::custom("no item"))
                }
            }
        };
    }
}

fn check(fields: &[Field], d: &mut Diagnostics) {
    let keys: Vec<&Field> = fields.iter().filter(|f| f.has(Flag::Primary)).collect();
    if let Some(second) = keys.get(1) {
        let names = list(keys.iter().map(|f| &f.name));
        d.error(
            &second.ident,
            format!("item has {} keys: {names}", keys.len()),
        )
        .help("keep one of them");
    }
    for (i, field) in fields.iter().enumerate() {
        if let Some(first) = fields[..i]
            .iter()
            .find(|f| f.wire == field.wire && f.name != field.name)
        {
            d.error(
                &field.ident,
                format!(
                    "fields `{}` and `{}` share wire name `{}`",
                    first.name, field.name, field.wire
                ),
            )
            .help("rename one of them");
        }
        let flags = [
            Flag::Filterable,
            Flag::Sortable,
            Flag::Immutable,
            Flag::ClientSet,
        ];
        let words = flags
            .iter()
            .filter_map(|f| field.options.flag(*f))
            .chain(&field.options.on_update);
        let mut refused = false;
        for word in words {
            refused = true;
            d.error(
                word,
                format!("`{word}` is for fields of entities; items have no routes of their own"),
            )
            .help("leave the option out");
        }
        // Items are copied into responses, pages and exports byte for byte, so no step can leave a
        // member out.
        for flag in [Flag::Private, Flag::WriteOnly] {
            if let Some(word) = field.options.flag(flag) {
                refused = true;
                d.error(
                    word,
                    format!(
                        "`{word}` on `{}`: responses contain items as they are stored, so no \
                         member can be hidden",
                        field.name
                    ),
                )
                .help("keep the value in a field of the entity, or leave the option out");
            }
        }
        if let Default::Ctx(_, at) = &field.options.default {
            refused = true;
            d.error(at, "an item cannot have a context default")
                .help("`default = ctx(..)` belongs to a field of the entity");
        }
        if let Some(computed) = &field.options.computed {
            refused = true;
            d.error(&computed.key, "`computed` is for fields of entities")
                .help("compute the value in the code that creates the item");
        }
        if let Some((at, _)) = &field.options.transform {
            refused = true;
            d.error(at, "`transform` is for fields of entities")
                .help("write it on the field of the entity that contains the items");
        }
        for text in field
            .options
            .column
            .iter()
            .chain(&field.options.rename_from)
        {
            d.error(
                text,
                "items are stored as JSON: their members have no columns",
            )
            .help("leave the option out");
        }
        if !refused {
            check_field::check(field, d);
        }
    }
}

fn expand(input: &DeriveInput, krate: &TokenStream, fields: &[Field], inert: bool) -> TokenStream {
    let (ident, vis) = (&input.ident, &input.vis);
    let lints = lints::allowed(&input.attrs, fields.iter().flat_map(|field| &field.attrs));
    let name = ident.unraw().to_string();
    let descs = fields.iter().map(|field| descriptor(field, inert));
    let count = proc_macro2::Literal::usize_unsuffixed(fields.len());
    let idents: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let wires: Vec<_> = fields.iter().map(|f| &f.wire).collect();
    let patch = format_ident!("{name}Patch", span = ident.span());
    let doc = format!(
        "Changes of one [`{name}`]: members that are `Some` replace the stored ones. The key never \
         changes."
    );
    let changeable: Vec<&Field> = fields
        .iter()
        .filter(|f| !f.has(Flag::Primary) && !f.server_owned())
        .collect();
    let members = changeable.iter().map(|f| {
        let (doc, ident, ty) = (&f.doc, &f.ident, &f.ty);
        let doc = if doc.is_empty() {
            format!("The new `{}`.", f.name)
        } else {
            doc.clone()
        };
        let lints = lints::allowed(&f.attrs, []);
        quote!(#[doc = #doc] #lints pub #ident: ::core::option::Option<#ty>)
    });
    let puts = changeable.iter().map(|f| {
        let (wire, ident) = (&f.wire, &f.ident);
        quote!(__lp::put_member(#wire, self.#ident, put);)
    });
    quote! {
        #[doc = #doc]
        #[derive(::core::default::Default)]
        #lints
        #vis struct #patch { #(#members),* }
        #lints
        const _: () = {
            use #krate::__private as __lp;
            #[automatically_derived]
            impl __lp::Embedded for #ident {
                const FIELDS: &'static [__lp::FieldDesc] = &[#(#descs),*];
                type Patch = #patch;
            }
            #[automatically_derived]
            impl __lp::ItemPatch for #patch {
                fn members(self, put: &mut dyn ::core::ops::FnMut(&'static str, __lp::Value)) {
                    #(#puts)*
                }
            }
            #[automatically_derived]
            impl __lp::serde::Serialize for #ident {
                fn serialize<S: __lp::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                    let mut item = serializer.serialize_struct(#name, #count)?;
                    #(__lp::SerializeStruct::serialize_field(&mut item, #wires, &self.#idents)?;)*
                    __lp::SerializeStruct::end(item)
                }
            }
            #[automatically_derived]
            impl<'de> __lp::serde::Deserialize<'de> for #ident {
                fn deserialize<D: __lp::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                    let mut item = __lp::Members::read(deserializer)?;
                    ::core::result::Result::Ok(Self { #(#idents: item.take(#wires)?),* })
                }
            }
        };
    }
}
