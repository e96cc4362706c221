//! `#[route]`: a function with any of axum's extractors, mounted below an entity under its policy.
//!
//! The function becomes a const of its name, an `ExtraRoute` of the entity, which `package!` lists.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{ItemFn, Path, Token};

use crate::diagnostics::Diagnostics;
use crate::entity::doc_of;
use crate::operation::path::{Method, RouteArgs, Segment};
use crate::options;
use crate::policy;

/// `#[route(args)] async fn name(..) -> impl IntoResponse { .. }`.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let parsed = syn::parse2::<ItemFn>(item.clone()).map_err(|e| syn::Error::new(e.span(), format!("#[route] needs a function: {e}")));
    let Some(function) = d.take(parsed) else {
        let errors = d.finish();
        return quote!(#item #errors);
    };
    let args = Args::parse(args, &function, &mut d);
    check(&function, &mut d);
    if !crate::SERVER {
        d.error(&function.sig.ident, "a route needs the `server` feature of linchpin").help("`linchpin = { features = [\"server\"] }`");
    }
    let sound = d.is_empty();
    let errors = d.finish();
    match args {
        Some(args) if sound => expand(&args, function),
        // The function stays as it is: what it says is checked all the same. Unused it is only because of the errors beside it.
        _ => quote!(#errors #[allow(dead_code)] #function),
    }
}

struct Args {
    entity: Path,
    route: RouteArgs,
    krate: TokenStream,
}

impl Args {
    fn parse(tokens: TokenStream, function: &ItemFn, d: &mut Diagnostics) -> Option<Self> {
        let options = options::parse(tokens, d);
        options::repeated(&options, &[], d);
        let (mut entity, mut route, mut krate) = (None, RouteArgs::default(), quote!(::linchpin));
        let known: Vec<&str> = policy::KEYS.iter().chain(&["entity", "method", "path"]).copied().collect();
        for opt in &options {
            match opt.name().as_str() {
                "entity" => entity = opt.path("entity = Post", d),
                "crate" => krate = opt.path("crate = ::framework::linchpin", d).map_or(krate, |path| quote!(#path)),
                _ if route.option(opt, true, d) => {}
                _ => options::unknown(opt, "route", &known, policy::LATER, d),
            }
        }
        policy::narrow::refuse(&route.policy, d);
        policy::permission::refuse(&route.policy, d);
        if let Some((key, _)) = &route.policy.description {
            d.error(key, "the description of a route is the doc comment of its function").help("`/// ..` above it");
        }
        if route.moved.method.as_ref().is_some_and(|(method, _)| *method == Method::Get) {
            policy::idempotent::refuse(&route.policy, "a GET route", d);
            policy::audit::refuse(&route.policy, "a GET route", d);
        }
        for (name, example) in [("entity", "entity = Post"), ("method", "method = \"GET\""), ("path", "path = \"feed.xml\"")] {
            if options::lacks(&options, name, &known) {
                d.error(&function.sig.ident, format!("route needs `{name}`")).help(format!("`{example}`"));
            }
        }
        Some(Self { entity: entity?, route, krate })
    }
}

fn check(function: &ItemFn, d: &mut Diagnostics) {
    if let Some(again) = function.attrs.iter().find(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "route")) {
        d.error(again, "`#[route]` is given twice").help("a function of its own for each route");
    }
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        d.error(&sig.fn_token, "the function of a route is async").help(format!("`async fn {}(..)`", sig.ident));
    }
    if !sig.generics.params.is_empty() {
        d.error(&sig.generics, "the function of a route cannot be generic: it is one handler");
    }
    if let Some(receiver) = sig.inputs.first().filter(|input| matches!(input, syn::FnArg::Receiver(_))) {
        d.error(receiver, "a route is a free function");
    }
    if sig.ident.to_string().chars().any(char::is_uppercase) {
        d.error(&sig.ident, "the function of a route is named in lower case: `package!` tells routes from operations by that");
    }
}

fn expand(args: &Args, mut function: ItemFn) -> TokenStream {
    let Args { entity, route, krate } = args;
    let (name, doc) = (function.sig.ident.clone(), doc_of(&function.attrs));
    let text = quote::ToTokens::to_token_stream(&name).to_string();
    let text = text.trim_start_matches("r#");
    let (docs, rest): (Vec<_>, Vec<_>) =
        function.attrs.drain(..).partition(|attr| attr.path().is_ident("doc") || attr.path().is_ident("cfg"));
    function.attrs = rest;
    let vis = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    // By these rustc knows that the const is the user's own, and says when no package lists it.
    let (first, last) = (Token![const](function.sig.fn_token.span), Token![;](function.block.brace_token.span.close()));
    let policy = route.policy.tokens(&quote!(#entity));
    // Both are there: their absence has been reported.
    let method = route.moved.method.as_ref().map(|(method, _)| method);
    let segments: &[Segment] = route.moved.path.as_ref().map_or(&[], |(segments, _)| segments);
    let serve = format_ident!("__serve");
    let types: Vec<&syn::Type> = function
        .sig
        .inputs
        .iter()
        .filter_map(|input| match input {
            syn::FnArg::Typed(typed) => Some(&*typed.ty),
            syn::FnArg::Receiver(_) => None,
        })
        .collect();
    let arguments: Vec<syn::Ident> = (0..types.len()).map(|n| format_ident!("__a{n}")).collect();
    quote! {
        #(#docs)*
        // The const has the name of the function, which is async whether or not it waits for anything.
        #[allow(non_upper_case_globals, clippy::unused_async)]
        #vis #first #name: #krate::http::ExtraRoute<#entity> = {
            use #krate::__private as __lp;
            #function
            fn #serve(request: __lp::Request) -> __lp::ResponseFuture {
                __lp::call_handler(|#(#arguments: #types),*| async move { __lp::answered(#name(#(#arguments),*).await) }, request)
            }
            __lp::ExtraRoute::new(__lp::ExtraRouteSpec {
                name: #text,
                route: #method(&[#(#segments),*]),
                policy: #policy,
                handler: #serve,
                doc: #doc,
                at: __lp::at(::core::file!(), ::core::line!()),
            })
        } #last
    }
}
