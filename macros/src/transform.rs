//! `#[transform]`: a function that a migration runs on stored values.
//!
//! The function stays as it is. The macro adds an empty enum with the same name, which implements a
//! trait with the descriptor. Functions and types have separate namespaces, so one path names both,
//! and one import imports both.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, ItemFn, Path, PathArguments, ReturnType, Type};

use crate::diagnostics::Diagnostics;
use crate::fragments::plain;
use crate::{digest, lints, options};

/// The form of a transform, for messages.
const EXAMPLES: &str = "`fn split(old: String) -> Result<i64, TransformError>`, or `fn owner(record: &OldRecord<'_>) -> Result<String, TransformError>` for a new field";

/// `#[transform(reverse = path)] fn split(old: String) -> Result<i64, TransformError> { .. }`.
pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut d = Diagnostics::new();
    let parsed = syn::parse2::<ItemFn>(plain(item.clone()))
        .map_err(|e| syn::Error::new(e.span(), format!("#[transform] needs a function: {e}")));
    let Some(function) = d.take(parsed) else {
        let errors = d.finish();
        return quote!(#item #errors);
    };
    let args = Args::parse(plain(args), &mut d);
    let signature = Signature::parse(&function, args.reverse.as_ref(), &mut d);
    let companion = companion(&args, &function, signature.filter(|_| d.is_empty()));
    let errors = d.finish();
    quote!(#item #companion #errors)
}

struct Args {
    /// The function that converts a new value back.
    reverse: Option<Path>,
    krate: TokenStream,
}

impl Args {
    fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let options = options::parse(tokens, d);
        options::repeated(&options, &[], d);
        let mut args = Self {
            reverse: None,
            krate: quote!(::linchpin),
        };
        for opt in &options {
            match opt.name().as_str() {
                "reverse" => args.reverse = opt.path("reverse = join", d),
                "crate" => {
                    if let Some(path) = opt.path("crate = ::framework::linchpin", d) {
                        args.krate = quote!(#path);
                    }
                }
                _ => options::unknown(opt, "transform", &["reverse", "crate"], &[], d),
            }
        }
        args
    }
}

/// The types of a transform, as written.
struct Signature {
    /// The type of the old value; `None` if the transform takes the old record.
    old: Option<Type>,
    /// `New` of `Result<New, TransformError>`.
    new: Type,
}

impl Signature {
    fn parse(function: &ItemFn, reverse: Option<&Path>, d: &mut Diagnostics) -> Option<Self> {
        let sig = &function.sig;
        if let Some(at) = &sig.asyncness {
            d.error(at, "a transform cannot be async: it only converts a value")
                .help("leave `async` out");
        }
        if !sig.generics.params.is_empty() {
            d.error(&sig.generics, "a transform cannot be generic")
                .help(EXAMPLES);
        }
        let inputs: Vec<&FnArg> = sig.inputs.iter().collect();
        let [FnArg::Typed(input)] = inputs[..] else {
            d.error(
                &sig.ident,
                "a transform must be a free function with one argument",
            )
            .help(EXAMPLES);
            return None;
        };
        let old = match &*input.ty {
            Type::Reference(reference) if is_record(reference) => None,
            Type::Reference(reference) => {
                d.error(
                    reference,
                    "the argument of a transform must be the old value, not a reference to it, or `&OldRecord`",
                )
                .help(EXAMPLES);
                return None;
            }
            ty => Some(ty.clone()),
        };
        if let (None, Some(reverse)) = (&old, reverse) {
            d.error(
                reverse,
                "a transform that fills a new field cannot have a reverse",
            )
            .help("leave `reverse` out");
        }
        let Some(new) = result_type(&sig.output) else {
            match &sig.output {
                ReturnType::Type(_, ty) => d.error(ty, "a transform must return a `Result`"),
                ReturnType::Default => d.error(&sig.ident, "a transform must return a `Result`"),
            }
            .help(EXAMPLES);
            return None;
        };
        Some(Self {
            old,
            new: new.clone(),
        })
    }
}

/// Whether it is `&OldRecord`, with or without lifetimes.
fn is_record(reference: &syn::TypeReference) -> bool {
    reference.mutability.is_none()
        && matches!(&*reference.elem, Type::Path(path)
            if path.path.segments.last().is_some_and(|last| last.ident == "OldRecord"))
}

/// `New` of `Result<New, _>`.
fn result_type(output: &ReturnType) -> Option<&Type> {
    let ReturnType::Type(_, ty) = output else {
        return None;
    };
    let Type::Path(path) = &**ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(of) = &last.arguments else {
        return None;
    };
    match of.args.first() {
        Some(GenericArgument::Type(ty)) if last.ident == "Result" => Some(ty),
        _ => None,
    }
}

/// Returns the enum with the descriptor. If the signature has errors, the enum is accepted for
/// fields of any type, so that they cause no further errors.
fn companion(args: &Args, function: &ItemFn, signature: Option<Signature>) -> TokenStream {
    let (krate, vis, name) = (&args.krate, &function.vis, &function.sig.ident);
    let cfgs = lints::conditions(&function.attrs);
    let lints = lints::allowed(&function.attrs, []);
    let doc = format!("The descriptor of the transform `{}`.", name.unraw());
    let types = signature.as_ref().map(|Signature { old, new }| {
        let old = old.as_ref().map(|old| {
            quote! {
                #[automatically_derived]
                impl __lp::FromValue for #name { type Value = #old; }
            }
        });
        quote! {
            #[automatically_derived]
            impl __lp::IntoField for #name { type Field = #new; }
            #old
        }
    });
    let implementation = signature.map_or_else(
        || {
            quote! {
                type Old = __lp::AnyTransform;
                type New = __lp::AnyTransform;
                const DESC: &'static __lp::TransformDesc = &__lp::ANY_TRANSFORM;
            }
        },
        |signature| implementation(args, function, &signature),
    );
    quote! {
        #cfgs
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code)] // the enum has the name of the function
        #vis enum #name {}
        #cfgs
        #lints
        const _: () = {
            use #krate::__private as __lp;
            #[automatically_derived]
            impl __lp::Transform for #name { #implementation }
            #types
        };
    }
}

fn implementation(args: &Args, function: &ItemFn, signature: &Signature) -> TokenStream {
    let (name, new) = (&function.sig.ident, &signature.new);
    let body = digest::of_function(function);
    let text = name.unraw().to_string();
    let reverse = args.reverse.as_ref().map(|reverse| {
        let call = quote_spanned!(reverse.span()=> __lp::reverse::<#name, __Reverse>());
        quote!(.reversed_by({ type __Reverse = #reverse; #call }))
    });
    let described = quote! {
        ::core::concat!(::core::module_path!(), "::", #text),
        #body,
        __lp::at(::core::file!(), ::core::line!())
    };
    let (old, desc) = match &signature.old {
        Some(old) => (
            old.to_token_stream(),
            quote!(__lp::transform::<Self>(#described, |input| __lp::convert::<Self>(input, #name))),
        ),
        None => (
            quote!(__lp::OldRecord<'static>),
            quote!(__lp::fill::<Self>(#described, |input| __lp::run_fill::<Self>(input, #name))),
        ),
    };
    quote! {
        type Old = #old;
        type New = #new;
        const DESC: &'static __lp::TransformDesc = &#desc #reverse;
    }
}
