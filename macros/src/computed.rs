//! `#[computed]`: records the digest of a function that computes a field.
//!
//! The entity names the function by its path, but the macro of the entity cannot see the function.
//! So `#[computed]` implements a trait for the entity, with a hash of the function's name as const
//! parameter. The expansion of the entity reads the digest from this implementation. For a function
//! without the attribute it reads an empty text.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{FnArg, Ident, ItemFn, Path, Type};

use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::{digest, options};

/// `#[computed] fn key(post: &Post) -> String { .. }`.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let parsed = syn::parse2::<ItemFn>(plain(item.clone()))
        .map_err(|e| syn::Error::new(e.span(), format!("#[computed] needs a function: {e}")));
    let krate = options::only_crate(plain(args), "computed", &mut d);
    let digest = d.take(parsed).and_then(|function| {
        let entity = entity(&function, &mut d)?;
        let hash = Literal::u64_unsuffixed(name_hash(&function.sig.ident));
        let body = digest::of_function(&function);
        let cfgs = function.attrs.iter().filter(|a| a.path().is_ident("cfg"));
        Some(quote! {
            #(#cfgs)*
            const _: () = {
                use #krate::__private as __lp;
                #[automatically_derived]
                impl __lp::ComputedBody<#hash> for #entity {
                    const BODY: &'static str = #body;
                }
            };
        })
    });
    let errors = d.finish();
    quote!(#item #digest #errors)
}

/// The entity whose record the function takes.
fn entity(function: &ItemFn, d: &mut Diagnostics) -> Option<Type> {
    let sig = &function.sig;
    if !sig.generics.params.is_empty() {
        d.error(&sig.generics, "a computed function cannot be generic")
            .help(format!("`fn {}(post: &Post) -> String`", sig.ident));
        return None;
    }
    let inputs: Vec<&FnArg> = sig.inputs.iter().collect();
    if let [FnArg::Typed(input)] = inputs[..]
        && let Type::Reference(reference) = &*input.ty
        && reference.mutability.is_none()
    {
        return Some((*reference.elem).clone());
    }
    d.error(
        &sig.ident,
        "a computed function must be a free function that takes a reference to the record",
    )
    .help(format!("`fn {}(post: &Post) -> String`", sig.ident));
    None
}

/// An expression for the digest of the function at a path; an empty text if it has none.
pub(crate) fn body(entity: &Ident, function: &Path) -> TokenStream {
    let Some(last) = function.segments.last() else {
        return quote!("");
    };
    let hash = Literal::u64_unsuffixed(name_hash(&last.ident));
    quote!({ use __lp::NoBody as _; __lp::BodyOf::<#entity, #hash>::BODY })
}

/// The path of the function as it is written, without spaces.
pub(crate) fn name(function: &Path) -> String {
    function.to_token_stream().to_string().replace(' ', "")
}

/// The FNV-1a hash of a function's name, for a const parameter.
fn name_hash(name: &Ident) -> u64 {
    let name = name.unraw().to_string();
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
