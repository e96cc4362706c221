//! `#[route]`.

use proc_macro2::TokenStream;
use quote::quote;

pub(crate) fn run(_args: TokenStream, item: TokenStream) -> TokenStream {
    quote! { ::core::compile_error!("linchpin: #[route] is not there yet"); #item }
}
