//! `#[operation]`.

use proc_macro2::TokenStream;
use quote::quote;

pub(crate) fn run(_args: TokenStream, item: TokenStream) -> TokenStream {
    quote! { ::core::compile_error!("linchpin: #[operation] is not there yet"); #item }
}

pub(crate) fn expand_with_schema(_input: TokenStream) -> TokenStream {
    quote!(::core::compile_error!("linchpin: #[operation] is not there yet");)
}
