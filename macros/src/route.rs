//! `#[route]`: a function with axum extractors, mounted below the path of an entity with a policy.
//!
//! The macro replaces the function by a const with the same name. The const is an `ExtraRoute` of
//! the entity, and `package!` lists it.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{GenericArgument, ItemFn, Path, PathArguments, ReturnType, Token, Type};

use crate::diagnostics::Diagnostics;
use crate::entity::doc_of;
use crate::expr::at;
use crate::fragments::plain;
use crate::operation;
use crate::operation::path::{Method, RouteArgs, Segment};
use crate::options;
use crate::policy;

/// `#[route(args)] async fn name(..) -> impl IntoResponse { .. }`.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let parsed = syn::parse2::<ItemFn>(item.clone())
        .map_err(|e| syn::Error::new(e.span(), format!("#[route] needs a function: {e}")));
    let Some(function) = d.take(parsed) else {
        let errors = d.finish();
        let item = operation::poisoned(item);
        return quote!(#item #errors);
    };
    let args = Args::parse(plain(args), &function, &mut d);
    check(&function, &mut d);
    if !crate::SERVER {
        d.error(
            &function.sig.ident,
            "a route needs the `server` feature of linchpin",
        )
        .help("`linchpin = { features = [\"server\"] }`");
    }
    let sound = d.is_empty();
    let errors = d.finish();
    if sound
        && let Args {
            entity: Some(entity),
            ..
        } = &args
    {
        return expand(&args, entity, function);
    }
    let item = poisoned(&args, function);
    quote!(#errors #item)
}

struct Args {
    /// The entity. `None` after an error, which has been reported.
    entity: Option<Path>,
    route: RouteArgs,
    krate: TokenStream,
}

impl Args {
    fn parse(tokens: TokenStream, function: &ItemFn, d: &mut Diagnostics) -> Self {
        let options = options::parse(tokens, d);
        options::repeated(&options, &[], d);
        let (mut entity, mut route, mut krate) = (None, RouteArgs::default(), quote!(::linchpin));
        let known: Vec<&str> = policy::KEYS
            .iter()
            .chain(&["entity", "method", "path"])
            .copied()
            .collect();
        for opt in &options {
            match opt.name().as_str() {
                "entity" => entity = opt.path("entity = Post", d),
                "crate" => {
                    krate = opt
                        .path("crate = ::framework::linchpin", d)
                        .map_or(krate, |path| quote!(#path));
                }
                _ if route.option(opt, true, d) => {}
                _ => options::unknown(opt, "route", &known, policy::PLANNED_KEYS, d),
            }
        }
        policy::narrow::refuse(&route.policy, d);
        policy::permission::refuse(&route.policy, d);
        if let Some((key, _)) = &route.policy.description {
            d.error(
                key,
                "`#[route]` does not accept `description`: the doc comment of the function is the description",
            )
            .help("`/// ..` above it");
        }
        if route
            .route_override
            .method
            .as_ref()
            .is_some_and(|(method, _)| *method == Method::Get)
        {
            policy::idempotent::refuse(&route.policy, "a GET route", d);
            policy::audit::refuse(&route.policy, "a GET route", d);
        }
        for (name, example) in [
            ("entity", "entity = Post"),
            ("method", "method = \"GET\""),
            ("path", "path = \"feed.xml\""),
        ] {
            if options::lacks(&options, name, &known) {
                d.error(&function.sig.ident, format!("route needs `{name}`"))
                    .help(format!("`{example}`"));
            }
        }
        Self {
            entity,
            route,
            krate,
        }
    }
}

fn check(function: &ItemFn, d: &mut Diagnostics) {
    if let Some(duplicate) = function.attrs.iter().find(|attr| is_route(attr)) {
        d.error(duplicate, "`#[route]` is given twice")
            .help("write a separate function for each route");
    }
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        d.error(&sig.fn_token, "the function of a route must be async")
            .help(format!("`async fn {}(..)`", sig.ident));
    }
    if !sig.generics.params.is_empty() {
        d.error(
            &sig.generics,
            "the function of a route cannot be generic: it is registered as one handler",
        );
    }
    if let Some(receiver) = sig
        .inputs
        .first()
        .filter(|input| matches!(input, syn::FnArg::Receiver(_)))
    {
        d.error(
            receiver,
            "the function of a route must be a free function, without `self`",
        );
    }
    if is_upper(&sig.ident) {
        d.error(&sig.ident, "name the function of a route in lower case: `package!` treats upper-case names as operations");
    }
}

/// Returns a const without an effect, for a declaration with errors, so that `package!` reports no
/// second error. The const contains the function, so that rustc still checks its body.
fn poisoned(args: &Args, mut function: ItemFn) -> TokenStream {
    let krate = &args.krate;
    if !crate::SERVER {
        return quote!(#[allow(dead_code)] #function);
    }
    let (name, vis) = (
        &function.sig.ident.clone(),
        std::mem::replace(&mut function.vis, syn::Visibility::Inherited),
    );
    let entity = args.entity.as_ref().map_or_else(
        || quote!(#krate::__private::Unnamed),
        |entity| quote!(#entity),
    );
    function.attrs.retain(|attr| !is_route(attr));
    // A function with `self` is left out, because rustc would report a second error.
    let function = function.sig.receiver().is_none().then_some(function);
    // `package!` takes a name in upper case as an operation and others as routes, so the type of
    // the const depends on its name.
    let ty = if is_upper(name) {
        quote!(#krate::Operation)
    } else {
        quote!(#krate::http::ExtraRoute)
    };
    quote! {
        #[allow(non_upper_case_globals, dead_code, clippy::unused_async)]
        #vis const #name: #ty<#entity> = {
            #function
            <#ty<_>>::poisoned()
        };
    }
}

fn is_route(attr: &syn::Attribute) -> bool {
    attr.path()
        .segments
        .last()
        .is_some_and(|last| last.ident == "route")
}

fn is_upper(name: &syn::Ident) -> bool {
    name.to_string().chars().any(char::is_uppercase)
}

fn expand(args: &Args, entity: &Path, mut function: ItemFn) -> TokenStream {
    let Args { route, krate, .. } = args;
    let (name, doc) = (function.sig.ident.clone(), doc_of(&function.attrs));
    let text = quote::ToTokens::to_token_stream(&name).to_string();
    let text = text.trim_start_matches("r#");
    let (docs, rest): (Vec<_>, Vec<_>) = function
        .attrs
        .drain(..)
        .partition(|attr| attr.path().is_ident("doc") || attr.path().is_ident("cfg"));
    function.attrs = rest;
    let vis = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    // With the spans of the app's tokens, rustc warns if the const is unused.
    let (first, last) = (
        Token![const](function.sig.fn_token.span),
        Token![;](function.block.brace_token.span.close()),
    );
    let policy = route.policy.tokens(&quote!(#entity));
    // Method and path are present: `Args::parse` has reported a missing one.
    let method = route
        .route_override
        .method
        .as_ref()
        .map(|(method, _)| method);
    let segments: &[Segment] = route
        .route_override
        .path
        .as_ref()
        .map_or(&[], |(segments, _)| segments);
    let (serve, contents) = (serve(&function), contents(&function));
    // The macro cannot see the base path of the entity, so a const assertion checks the path.
    let path_assertion = route
        .route_override
        .path
        .as_ref()
        .filter(|(segments, _)| matches!(segments.first(), Some(Segment::Lit(_))))
        .map(|(_, text)| {
            let entity = at(
                quote!(<#entity as __lp::Entity>::DESC),
                &text.to_token_stream(),
            );
            quote_spanned!(text.span()=> const _: () = __lp::expect_below(#entity, #text);)
        });
    quote! {
        #(#docs)*
        // The const has the lower-case name of the function. The function is async even without
        // `.await`.
        #[allow(non_upper_case_globals, clippy::unused_async)]
        #vis #first #name: #krate::http::ExtraRoute<#entity> = {
            use #krate::__private as __lp;
            #path_assertion
            #function
            #serve
            #contents
            __lp::ExtraRoute::new(__lp::ExtraRouteSpec {
                name: #text,
                route: #method(&[#(#segments),*]),
                policy: #policy,
                handler: const { &(__serve as __lp::ExtraHandler) },
                contents: const { &(__contents as __lp::ContentsOf) },
                doc: #doc,
                at: __lp::at(::core::file!(), ::core::line!()),
            })
        } #last
    }
}

/// Builds the function that the runtime calls. It extracts each argument in a statement of its own,
/// so that rustc reports an argument that is not an extractor at its type.
fn serve(function: &ItemFn) -> TokenStream {
    let typed = function.sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(typed) => Some(&*typed.ty),
        syn::FnArg::Receiver(_) => None,
    });
    let types: Vec<&syn::Type> = typed.collect();
    let arguments: Vec<syn::Ident> = (0..types.len()).map(|n| format_ident!("__a{n}")).collect();
    let last = types.len().saturating_sub(1);
    let takes = types
        .iter()
        .zip(&arguments)
        .enumerate()
        .map(|(n, (ty, argument))| {
            let take = if n == last {
                quote!(last::<#ty, _>)
            } else {
                quote!(take::<#ty>)
            };
            quote!(let #argument = __arguments.#take().await?;)
        });
    let init = match types.len() {
        0 => TokenStream::new(),
        1 => quote!(let __arguments = __lp::Arguments::of(__request);),
        _ => quote!(let mut __arguments = __lp::Arguments::of(__request);),
    };
    let request = if types.is_empty() {
        quote!(_)
    } else {
        quote!(__request)
    };
    let mut name = function.sig.ident.clone();
    // The span is the return type, so that rustc reports a wrong type there.
    if let syn::ReturnType::Type(_, ty) = &function.sig.output {
        name.set_span(ty.span());
    }
    let at = name.span();
    let answer = quote_spanned!(at=> __lp::answered(#name(#(#arguments),*).await));
    quote! {
        fn __serve(#request: __lp::Request) -> __lp::ResponseFuture {
            __lp::serve_route(async move {
                #init
                #(#takes)*
                #answer
            })
        }
    }
}

/// Builds the function that describes the body and the response for the OpenAPI document. Types
/// that cannot be named outside of the signature have no description.
fn contents(function: &ItemFn) -> TokenStream {
    let probe = |ty: &Type| quote!((&&&&__lp::Probe::<#ty>::new()).content());
    let body_type = match function.sig.inputs.last() {
        Some(syn::FnArg::Typed(typed)) => Some(&*typed.ty).filter(|ty| can_be_named(ty)),
        _ => None,
    };
    let body = body_type.map(probe);
    let (response, ok) = match &function.sig.output {
        ReturnType::Type(_, ty) => response_type(ty, true),
        ReturnType::Default => (None, false),
    };
    let response = response.filter(|ty| can_be_named(ty)).map(probe);
    if body.is_none() && response.is_none() {
        return quote!(
            const __contents: fn() -> __lp::Contents = __lp::Contents::NONE;
        );
    }
    let (body, response) = (
        body.unwrap_or_else(|| quote!(__lp::None)),
        response.unwrap_or_else(|| quote!(__lp::None)),
    );
    quote! {
        fn __contents() -> __lp::Contents {
            #[allow(unused_imports)] // the types decide which traits apply
            use __lp::{ByMedia as _, ByRecord as _, ByShape as _, Otherwise as _};
            __lp::Contents { body: #body, answer: #response, ok: #ok }
        }
    }
}

/// Returns the type of the response body, and whether the status is 200.
///
/// For a `Result`, it is the first type argument. For a tuple, it is the last type.
fn response_type(ty: &Type, ok: bool) -> (Option<&Type>, bool) {
    match ty {
        Type::Tuple(tuple) => tuple
            .elems
            .last()
            .map_or((None, false), |last| response_type(last, false)),
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "Result" => match &last.arguments {
                PathArguments::AngleBracketed(of) => match of.args.first() {
                    Some(GenericArgument::Type(ty)) => response_type(ty, ok),
                    _ => (None, false),
                },
                _ => (None, false),
            },
            _ => (Some(ty), ok),
        },
        _ => (Some(ty), ok),
    }
}

/// Whether a type can be named outside of a signature: it has no elided or named lifetime except
/// `'static`, and it is no `impl Trait`, `_` or macro.
fn can_be_named(ty: &Type) -> bool {
    struct Hidden(bool);
    impl<'a> Visit<'a> for Hidden {
        fn visit_type(&mut self, ty: &'a Type) {
            let elided = matches!(ty, Type::Reference(reference) if reference.lifetime.is_none());
            self.0 |= elided || matches!(ty, Type::ImplTrait(_) | Type::Infer(_) | Type::Macro(_));
            syn::visit::visit_type(self, ty);
        }

        fn visit_lifetime(&mut self, lifetime: &'a syn::Lifetime) {
            self.0 |= lifetime.ident != "static";
        }
    }
    let mut hidden = Hidden(false);
    hidden.visit_type(ty);
    !hidden.0
}
