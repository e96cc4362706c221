//! `#[derive(FieldEnum)]`: an enum whose variants are the values of a field.

use darling::FromMeta;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Fields, Ident, LitStr};

use super::parse_field::{field_options, krate};
use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::lints;
use crate::names;
use crate::options::{self, Opt, Rest};
use crate::repair;

struct Variant {
    ident: Ident,
    wire: String,
}

/// Runs the derive.
pub(crate) fn run(item: &TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let expanded = d
        .take(repair::item::<DeriveInput>(&plain(item.clone())))
        .and_then(|input| {
            let krate = krate(&input.attrs, "field", &mut d);
            let variants = variants(&input, &mut d);
            // With generic parameters there is no single type to implement this for.
            input.generics.params.is_empty().then(|| {
                let lints = lints::allowed(&input.attrs, attrs_of_variants(&input));
                expand(
                    &input.ident,
                    &krate,
                    &lints,
                    if d.is_empty() { &variants } else { &[] },
                )
            })
        });
    let errors = d.finish();
    quote!(#expanded #errors)
}

/// The attributes of all variants.
pub(crate) fn attrs_of_variants(input: &DeriveInput) -> impl Iterator<Item = &Attribute> {
    let variants = if let Data::Enum(data) = &input.data {
        Some(&data.variants)
    } else {
        None
    };
    variants
        .into_iter()
        .flatten()
        .flat_map(|variant| &variant.attrs)
}

fn variants(input: &DeriveInput, d: &mut Diagnostics) -> Vec<Variant> {
    let Data::Enum(data) = &input.data else {
        d.error(
            &input.ident,
            format!("FieldEnum needs an enum; `{}` is not an enum", input.ident),
        )
        .help("`#[derive(Embedded)]` is for item structs");
        return Vec::new();
    };
    if !input.generics.params.is_empty() {
        d.error(
            &input.generics,
            format!("enum `{}` cannot be generic", input.ident),
        )
        .help("leave the parameters out");
    }
    if data.variants.is_empty() {
        d.error(
            &input.ident,
            format!(
                "enum `{}` has no variants, so no field could have a value",
                input.ident
            ),
        )
        .help("add a variant");
    }
    let mut variants: Vec<Variant> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            d.error(
                &variant.fields,
                format!(
                    "variant `{}` carries data; a field stores its name only",
                    variant.ident
                ),
            )
            .help(format!("`{}`", variant.ident));
        }
        let renamed = rename(&mut variant.attrs.clone(), d);
        let wire = renamed.as_ref().map_or_else(
            || names::snake(&variant.ident.unraw().to_string()),
            LitStr::value,
        );
        if wire.is_empty() || wire.chars().any(char::is_control) {
            match &renamed {
                Some(text) => {
                    d.error(
                        text,
                        "a wire name must have at least one character and no control characters",
                    )
                    .help("`rename = \"in_review\"`");
                }
                None => d
                    .error(&variant.ident, "the variant has no name on the wire")
                    .help("`#[field(rename = \"..\")]`"),
            }
        }
        if let Some(first) = variants.iter().find(|v| v.wire == wire) {
            let message = format!(
                "variants `{}` and `{}` share wire name `{wire}`",
                first.ident, variant.ident
            );
            match &renamed {
                Some(text) => d.error(text, message).help("choose another name"),
                None => d
                    .error(&variant.ident, message)
                    .help("`#[field(rename = \"..\")]`"),
            }
        }
        variants.push(Variant {
            ident: variant.ident.clone(),
            wire,
        });
    }
    variants
}

/// The keys of a variant's `#[field(..)]`.
#[derive(Debug, Default, FromMeta)]
struct VariantKeys {
    rename: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

fn rename(attrs: &mut Vec<syn::Attribute>, d: &mut Diagnostics) -> Option<LitStr> {
    let keys: VariantKeys = options::table(field_options(attrs, d), &[], d);
    keys.rest.refuse("variant", &["rename"], &[], d);
    keys.rename
        .and_then(|opt| opt.text("rename = \"in_review\"", d))
}

/// Implements the trait even if the enum has errors, then without variants, so that fields of its
/// type add no errors.
fn expand(
    ident: &Ident,
    krate: &TokenStream,
    lints: &TokenStream,
    variants: &[Variant],
) -> TokenStream {
    let name = ident.unraw().to_string();
    let wires = variants.iter().map(|v| &v.wire);
    let idents: Vec<_> = variants.iter().map(|v| &v.ident).collect();
    let indexes = (0..variants.len()).map(proc_macro2::Literal::usize_unsuffixed);
    let index = if variants.is_empty() {
        quote!(0)
    } else {
        quote!(match self { #(Self::#idents => #indexes),* })
    };
    quote! {
        #lints
        const _: () = {
            use #krate::__private as __lp;
            static DESC: __lp::EnumDesc = __lp::EnumDesc { name: #name, variants: &[#(#wires),*] };
            #[automatically_derived]
            impl __lp::FieldEnum for #ident {
                const DESC: &'static __lp::EnumDesc = &DESC;
                const ALL: &'static [Self] = &[#(Self::#idents),*];
                fn index(self) -> usize { #index }
            }
            #[automatically_derived]
            impl __lp::FieldType for #ident {
                type Inner = Self;
                const KIND: __lp::Kind = __lp::Kind::Enum(&DESC);
                fn into_value(self) -> __lp::Value { __lp::enum_to_value(self) }
                fn from_value(value: __lp::ValueRef<'_>) -> ::core::result::Result<Self, __lp::DecodeError> {
                    __lp::enum_from_value(value)
                }
            }
            #[automatically_derived]
            impl __lp::serde::Serialize for #ident {
                fn serialize<S: __lp::serde::Serializer>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error> {
                    __lp::serialize_enum(self, serializer)
                }
            }
            #[automatically_derived]
            impl<'de> __lp::serde::Deserialize<'de> for #ident {
                fn deserialize<D: __lp::serde::Deserializer<'de>>(deserializer: D) -> ::core::result::Result<Self, D::Error> {
                    __lp::deserialize_enum(deserializer)
                }
            }
        };
    }
}
