//! Rejects types of Rust and std that no field can have. rustc checks the types that the app
//! declares.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, PathSegment, Type};

use crate::diagnostics::Diagnostics;

/// Integer types other than `i64`: a store may return a different value from the one that was
/// written.
const INTEGERS: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i128", "isize",
];
/// Element types of lists that no field can have.
const LIST_ELEMENTS: &[&str] = &["i64", "f64", "f32", "bool", "char"];
const MAPS: &[&str] = &["HashMap", "BTreeMap", "HashSet", "BTreeSet", "VecDeque"];

/// The replacement of a type. The message suggests this type, and the macro reads the rest of the
/// declaration as if the field had this type.
enum Replacement {
    Integer,
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
    let Some(replacement) = replacement(ty) else {
        return;
    };
    let written = type_text(ty);
    let help = match replacement {
        Replacement::Integer => "i64".to_owned(),
        Replacement::Number => "f64".to_owned(),
        Replacement::Text => "String".to_owned(),
        Replacement::Texts => "Vec<String>".to_owned(),
        Replacement::Date => "Timestamp".to_owned(),
        Replacement::Json => format!("Json<{written}>"),
    };
    d.error(ty, format!("field `{name}` cannot be `{written}`"))
        .help(format!("`{help}`"));
    let at = ty.span();
    let tokens = match replacement {
        Replacement::Integer => quote_spanned!(at=> i64),
        Replacement::Number => quote_spanned!(at=> f64),
        Replacement::Text => quote_spanned!(at=> ::std::string::String),
        Replacement::Texts => quote_spanned!(at=> ::std::vec::Vec<::std::string::String>),
        Replacement::Date => quote_spanned!(at=> #krate::Timestamp),
        // The inner type does not matter, because no message contains it.
        Replacement::Json => quote_spanned!(at=> #krate::Json<::std::string::String>),
    };
    if let Ok(instead) = syn::parse2(tokens) {
        *ty = instead;
    }
}

fn replacement(ty: &Type) -> Option<Replacement> {
    let path = match ty {
        Type::Reference(reference) => return is_text(&reference.elem).then_some(Replacement::Text),
        Type::Array(_) | Type::Tuple(_) => return Some(Replacement::Json),
        Type::Path(path) => &path.path,
        _ => return None,
    };
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    // A type with a longer path could be a type of the app with the same name.
    let plain = path.segments.len() == 1 && last.arguments.is_none();
    match name.as_str() {
        integer if plain && INTEGERS.contains(&integer) => Some(Replacement::Integer),
        "f32" if plain => Some(Replacement::Number),
        "char" | "str" if plain => Some(Replacement::Text),
        "SystemTime" => Some(Replacement::Date),
        map if MAPS.contains(&map) && !last.arguments.is_none() => Some(Replacement::Json),
        "Vec" => match arguments(last).next()? {
            Type::Reference(reference) if is_text(&reference.elem) => Some(Replacement::Texts),
            Type::Path(one) => {
                let value = one.path.get_ident().map(ToString::to_string)?;
                let known =
                    INTEGERS.contains(&value.as_str()) || LIST_ELEMENTS.contains(&value.as_str());
                known.then_some(Replacement::Json)
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

/// Formats a type as in formatted source code. The text of a token stream has more spaces.
fn type_text(ty: &Type) -> String {
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
