//! The enum with the attribute: its variants with their marks and payloads.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Fields, Ident, ItemEnum, Path, Type};

use super::marks::{self, Kind, Mark};
use crate::diagnostics::Diagnostics;
use crate::entity::{Field, doc_of, variant_members};

/// The enum as written.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) ident: Ident,
    pub(super) doc: String,
    pub(super) variants: Vec<Variant>,
}

/// A variant as written.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) doc: String,
    /// More than one only for `on`. If it is empty, the error has been reported.
    pub(super) marks: Vec<Mark>,
    pub(super) payload: Payload,
}

/// The payload of a variant.
#[derive(Debug)]
pub(super) enum Payload {
    None,
    /// `Thread(Thread)`.
    Type(Box<Type>),
    /// `Typing { thread_id: String }`.
    Members(Vec<Field>),
    /// A tuple of several values, or of one value that is not an object in JSON. The error has been
    /// reported.
    Unreadable,
}

/// Returns the enum without the attributes that the macro reads.
pub(super) fn emitted(mut item: ItemEnum) -> TokenStream {
    for variant in &mut item.variants {
        // A misspelt mark is reported by the second step, not by rustc as well.
        variant
            .attrs
            .retain(|attr| !marks::is_mark(attr) && marks::misspelt_mark(attr).is_none());
        // The server sends events of entities, so no code builds these variants. The enum itself
        // does not get the attribute: rustc shall warn about a channel that nothing uses.
        variant.attrs.push(syn::parse_quote!(#[allow(dead_code)]));
        for field in &mut variant.fields {
            field.attrs.retain(|attr| !attr.path().is_ident("field"));
        }
    }
    item.into_token_stream()
}

impl Declared {
    /// Reads the enum. All problems go to `d`.
    pub(super) fn read(item: &ItemEnum, d: &mut Diagnostics) -> Self {
        let ident = item.ident.clone();
        if !item.generics.params.is_empty() || item.generics.where_clause.is_some() {
            d.error(
                &item.generics,
                format!("channel `{ident}` cannot be generic"),
            )
            .help("leave the parameters out");
        }
        if item.variants.is_empty() {
            d.error(&ident, format!("channel `{ident}` has no events"))
                .help("`#[publish] Announcement { text: String }`");
        }
        Self {
            doc: doc_of(&item.attrs),
            variants: item
                .variants
                .iter()
                .map(|variant| Variant::read(variant, d))
                .collect(),
            ident,
        }
    }

    /// The entities that its variants name, as written.
    pub(super) fn entities(&self) -> Vec<Path> {
        let mut all = Vec::new();
        for mark in self.variants.iter().flat_map(|variant| &variant.marks) {
            match &mark.kind {
                Kind::On(on) => all.extend(on.events.iter().map(|event| event.entity.clone())),
                Kind::Operation { event, .. } => all.push(event.entity.clone()),
                Kind::Publish { .. } | Kind::Relay { .. } | Kind::Handler(_) | Kind::Unreadable => {
                }
            }
        }
        all
    }
}

impl Variant {
    fn read(variant: &syn::Variant, d: &mut Diagnostics) -> Self {
        let ident = variant.ident.clone();
        if let Some(cfg) = variant
            .attrs
            .iter()
            .find(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
        {
            d.error(cfg, "variants of a channel cannot depend on `cfg`")
                .help("declare a separate channel for each build");
        }
        if let Some((_, value)) = &variant.discriminant {
            d.error(value, "a variant of a channel cannot have a discriminant")
                .help("leave it out");
        }
        let mut marks: Vec<Mark> = variant
            .attrs
            .iter()
            .filter(|attr| marks::is_mark(attr))
            .filter_map(|attr| Mark::read(attr, d))
            .collect();
        if marks.is_empty() {
            let near = variant
                .attrs
                .iter()
                .find_map(|attr| Some((attr.path(), marks::misspelt_mark(attr)?)));
            match near {
                Some((word, near)) => d
                    .error(word, format!("unknown mark `{}`", marks::path_text(word)))
                    .help(format!("`#[{near}]`")),
                None => d
                    .error(
                        &ident,
                        format!(
                            "variant `{ident}` needs an attribute that says who sends the event"
                        ),
                    )
                    .help("`#[on(..)]`, `#[publish]`, `#[relay]` or `#[incoming(..)]`"),
            }
        }
        let on = marks.first().is_some_and(|mark| mark.word == "on");
        for more in marks.iter().skip(1).filter(|more| !on || more.word != "on") {
            d.error(&more.word, format!("variant `{ident}` has two of the attributes `on`, `publish`, `relay` and `incoming`"))
                .help("declare a separate variant for each attribute; only `on` may be repeated");
        }
        marks.retain({
            let mut first = true;
            move |mark| std::mem::take(&mut first) || (on && mark.word == "on")
        });
        Self {
            doc: doc_of(&variant.attrs),
            payload: Payload::read(variant, d),
            marks,
            ident,
        }
    }

    /// `thread_pinned`.
    pub(super) fn snake(&self) -> String {
        crate::names::snake(&self.ident.unraw().to_string())
    }
}

impl Payload {
    fn read(variant: &syn::Variant, d: &mut Diagnostics) -> Self {
        match &variant.fields {
            Fields::Unit => Self::None,
            Fields::Unnamed(fields)
                if fields.unnamed.len() == 1 && is_plain(&fields.unnamed[0].ty) =>
            {
                let ty = &fields.unnamed[0].ty;
                d.error(
                    ty,
                    format!(
                        "the payload of `{}` must be a JSON object, not a single value",
                        variant.ident
                    ),
                )
                .help(format!(
                    "a named field: `{} {{ value: {} }}`",
                    variant.ident,
                    ty.to_token_stream()
                ));
                Self::Unreadable
            }
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                Self::Type(Box::new(fields.unnamed[0].ty.clone()))
            }
            Fields::Unnamed(fields) => {
                d.error(
                    &fields.to_token_stream(),
                    format!("the payload of `{}` must be one value", variant.ident),
                )
                .help("a struct with `#[derive(Embedded)]`, or named fields");
                Self::Unreadable
            }
            Fields::Named(fields) => {
                Self::Members(variant_members(&mut fields.clone(), &quote!(::linchpin), d))
            }
        }
    }
}

/// Whether a type is certainly not a struct of the app.
fn is_plain(ty: &syn::Type) -> bool {
    const PLAIN: [&str; 14] = [
        "String", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64",
        "Vec", "Option",
    ];
    match ty {
        syn::Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|segment| PLAIN.iter().any(|plain| segment.ident == plain))
        }
        syn::Type::Reference(_) | syn::Type::Tuple(_) | syn::Type::Array(_) => true,
        _ => false,
    }
}
