//! `#[derive(Roles)]`: an enum whose variants are the roles of an app.

use darling::FromMeta;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Fields, Ident, LitStr};

use crate::diagnostics::Diagnostics;
use crate::entity::{attribute_options, attrs_of_variants, krate};
use crate::fragments::plain;
use crate::lints;
use crate::names;
use crate::options::{self, Opt, Rest};
use crate::repair;

/// Runs the derive.
pub(crate) fn run(item: &TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let expanded = d
        .take(repair::item::<DeriveInput>(&plain(item.clone())))
        .and_then(|input| {
            let krate = krate(&input.attrs, "role", &mut d);
            let roles = roles(&input, &mut d);
            // An enum with generic parameters is not a single type, so the trait cannot be
            // implemented.
            input.generics.params.is_empty().then(|| {
                expand(
                    &input.ident,
                    &krate,
                    &lints::allowed(&input.attrs, attrs_of_variants(&input)),
                    &roles,
                )
            })
        });
    let errors = d.finish();
    quote!(#expanded #errors)
}

/// Returns the variants and their wire names.
fn roles(input: &DeriveInput, d: &mut Diagnostics) -> Vec<(Ident, String)> {
    let Data::Enum(data) = &input.data else {
        d.error(
            &input.ident,
            format!("Roles needs an enum; `{}` is not an enum", input.ident),
        )
        .help("`enum Role { Admin, Editor }`");
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
                "enum `{}` has no variants, so there are no roles",
                input.ident
            ),
        )
        .help("add a variant");
    }
    let mut roles: Vec<(Ident, String)> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            d.error(
                &variant.fields,
                format!(
                    "variant `{}` carries data; a role is a name only",
                    variant.ident
                ),
            )
            .help(format!("`{}`", variant.ident));
        }
        if let Some((_, value)) = &variant.discriminant {
            d.error(value, "a role cannot have a discriminant")
                .help(format!("`{}`", variant.ident));
        }
        let renamed = rename(&mut variant.attrs.clone(), d);
        let wire = renamed.as_ref().map_or_else(
            || names::snake(&variant.ident.unraw().to_string()),
            LitStr::value,
        );
        if wire.trim().is_empty() || wire.chars().any(char::is_control) {
            match &renamed {
                Some(text) => {
                    d.error(
                        text,
                        "the name of a role must not be blank and must not contain control characters",
                    )
                    .help("`rename = \"editor\"`");
                }
                None => d
                    .error(&variant.ident, "the role has no name on the wire")
                    .help("`#[role(rename = \"..\")]`"),
            }
        }
        if let Some((first, _)) = roles.iter().find(|(_, other)| *other == wire) {
            let message = format!(
                "roles `{first}` and `{}` share the name `{wire}`",
                variant.ident
            );
            match &renamed {
                Some(text) => d.error(text, message).help("choose another name"),
                None => d
                    .error(&variant.ident, message)
                    .help("`#[role(rename = \"..\")]`"),
            }
        }
        roles.push((variant.ident.clone(), wire));
    }
    roles
}

/// The keys of a variant's `#[role(..)]`.
#[derive(Debug, Default, FromMeta)]
struct VariantKeys {
    rename: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

fn rename(attrs: &mut Vec<Attribute>, d: &mut Diagnostics) -> Option<LitStr> {
    let options = attribute_options(attrs, "role", "`#[role(rename = \"editor\")]`", d);
    let keys: VariantKeys = options::table(options, &[], d);
    keys.rest.refuse("role", &["rename"], &[], d);
    keys.rename
        .and_then(|opt| opt.text("rename = \"editor\"", d))
}

/// Implements the trait even if the enum has errors, so that the policies that name its variants
/// add no errors.
fn expand(
    ident: &Ident,
    krate: &TokenStream,
    lints: &TokenStream,
    roles: &[(Ident, String)],
) -> TokenStream {
    let names = roles.iter().map(|(_, wire)| wire);
    let arms = roles
        .iter()
        .map(|(variant, wire)| quote!(Self::#variant { .. } => #wire));
    let name = if roles.is_empty() {
        quote!("")
    } else {
        quote!(match self { #(#arms),* })
    };
    quote! {
        #[automatically_derived]
        #lints
        impl #krate::Roles for #ident {
            const NAMES: &'static [&'static str] = &[#(#names),*];
        }
        #[automatically_derived]
        #lints
        impl #ident {
            /// The name of the role in tokens.
            #[allow(dead_code)] // an app may never need the names
            pub const fn as_str(&self) -> &'static str { #name }
        }
        #[automatically_derived]
        #lints
        impl ::core::convert::From<#ident> for ::std::string::String {
            fn from(role: #ident) -> Self { ::core::convert::From::from(role.as_str()) }
        }
    }
}
