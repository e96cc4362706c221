//! Types of the language and of std that no field can have. rustc checks types of the app.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, PathSegment, Type};

use crate::diagnostics::Diagnostics;

/// Integers of other sizes, which a store would not return unchanged.
const WHOLE: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i128", "isize",
];
/// The elements of lists that are not lists of texts.
const VALUES: &[&str] = &["i64", "f64", "f32", "bool", "char"];
const MAPS: &[&str] = &["HashMap", "BTreeMap", "HashSet", "BTreeSet", "VecDeque"];

/// The replacement of a type: in messages, and while the rest of the declaration is read.
enum Meant {
    Whole,
    Number,
    Text,
    Texts,
    Date,
    Json,
}

/// Reports a type that no field can have, and replaces it by the suggested type, so that neither
/// the rest of the declaration nor its operations report it again.
pub(super) fn replace(name: &str, ty: &mut Type, krate: &TokenStream, d: &mut Diagnostics) {
    if let Some(inner) = inside_mut(ty, "Option") {
        return replace(name, inner, krate, d);
    }
    let Some(meant) = meant(ty) else { return };
    let written = shown(ty);
    let help = match meant {
        Meant::Whole => "i64".to_owned(),
        Meant::Number => "f64".to_owned(),
        Meant::Text => "String".to_owned(),
        Meant::Texts => "Vec<String>".to_owned(),
        Meant::Date => "Timestamp".to_owned(),
        Meant::Json => format!("Json<{written}>"),
    };
    d.error(ty, format!("field `{name}` cannot be `{written}`"))
        .help(format!("`{help}`"));
    let at = ty.span();
    let tokens = match meant {
        Meant::Whole => quote_spanned!(at=> i64),
        Meant::Number => quote_spanned!(at=> f64),
        Meant::Text => quote_spanned!(at=> ::std::string::String),
        Meant::Texts => quote_spanned!(at=> ::std::vec::Vec<::std::string::String>),
        Meant::Date => quote_spanned!(at=> #krate::Timestamp),
        // The inner type is never reported.
        Meant::Json => quote_spanned!(at=> #krate::Json<::std::string::String>),
    };
    if let Ok(instead) = syn::parse2(tokens) {
        *ty = instead;
    }
}

fn meant(ty: &Type) -> Option<Meant> {
    let path = match ty {
        Type::Reference(reference) => return is_text(&reference.elem).then_some(Meant::Text),
        Type::Array(_) | Type::Tuple(_) => return Some(Meant::Json),
        Type::Path(path) => &path.path,
        _ => return None,
    };
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    // A type with this name in a module could belong to the app.
    let plain = path.segments.len() == 1 && last.arguments.is_none();
    match name.as_str() {
        whole if plain && WHOLE.contains(&whole) => Some(Meant::Whole),
        "f32" if plain => Some(Meant::Number),
        "char" | "str" if plain => Some(Meant::Text),
        "SystemTime" => Some(Meant::Date),
        map if MAPS.contains(&map) && !last.arguments.is_none() => Some(Meant::Json),
        "Vec" => match arguments(last).next()? {
            Type::Reference(reference) if is_text(&reference.elem) => Some(Meant::Texts),
            Type::Path(one) => {
                let value = one.path.get_ident().map(ToString::to_string)?;
                let known = WHOLE.contains(&value.as_str()) || VALUES.contains(&value.as_str());
                known.then_some(Meant::Json)
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_text(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("str"))
}

fn arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments
        .into_iter()
        .flatten()
        .filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        })
}

/// `T` of `Option<T>`.
fn inside_mut<'a>(ty: &'a mut Type, wrapper: &str) -> Option<&'a mut Type> {
    let Type::Path(path) = ty else { return None };
    let last = path
        .path
        .segments
        .last_mut()
        .filter(|last| last.ident == wrapper)?;
    let PathArguments::AngleBracketed(arguments) = &mut last.arguments else {
        return None;
    };
    match arguments.args.first_mut()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Formats a type as a person would write it.
fn shown(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    [
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" :: ", "::"),
        (" ;", ";"),
        ("& ", "&"),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
}
