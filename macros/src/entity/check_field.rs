//! The rules on a single field: its options and its default. Item structs use them too.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprLit, Lit};

use super::check::{hidden, kind_text, type_text};
use super::check_rules;
use super::date;
use super::field::{Default, Field, Flag, Kind};
use super::rules::as_float;
use crate::diagnostics::Diagnostics;
use crate::expr::{CtxPath, MAX_INTEGER};
use crate::options;

/// Checks options, default and constraints of a field.
pub(crate) fn check(field: &Field, d: &mut Diagnostics) {
    generated_default(field, d);
    on_update(field, d);
    if let Default::Value(value) = &field.options.default {
        literal_default(field, value, d);
    }
    exclusions(field, d);
    required(field, d);
    marks(field, d);
    check_rules::check(field, d);
}

/// A generated default fits the type of the field.
fn generated_default(field: &Field, d: &mut Diagnostics) {
    let (word, fits, wanted) = match &field.options.default {
        Default::Uuid(word) | Default::Cuid(word) => (word, field.kind.may_be_text(), "string"),
        Default::Now(word) => (word, matches!(field.kind, Kind::Date | Kind::Other), "date"),
        Default::Ctx(path, at) => return ctx_default(field, path, at, d),
        _ => return,
    };
    if !fits {
        let problem = d.error(
            word,
            format!(
                "default `{word}` needs a {wanted} field, `{}` is {}",
                field.name,
                kind_text(field)
            ),
        );
        problem.help(if wanted == "date" {
            "make it a `Timestamp`"
        } else {
            "make it a `String`"
        });
    } else if field.kind == Kind::Uuid && matches!(field.options.default, Default::Cuid(_)) {
        d.error(
            word,
            format!("default `cuid` is no uuid, `{}` is a Uuid", field.name),
        )
        .help("`default = uuid`");
    }
}

/// A context value is a string; a claim may be a number or a boolean as well.
fn ctx_default(field: &Field, path: &CtxPath, at: &Expr, d: &mut Diagnostics) {
    if matches!(path, CtxPath::Value(_)) {
        // rustc compares the types.
        return;
    }
    let is_claim = matches!(path, CtxPath::Claim(_));
    let fits = if is_claim {
        field.kind.is_scalar() && field.kind != Kind::Date
    } else {
        field.kind.may_be_text()
    };
    if !fits {
        let what = if is_claim {
            "a claim is a string, a number or a boolean"
        } else {
            "this is a string"
        };
        d.error(
            at,
            format!("{what}, `{}` is {}", field.name, kind_text(field)),
        );
    }
}

/// `on_update = now` needs a date.
fn on_update(field: &Field, d: &mut Diagnostics) {
    if let Some(at) = &field.options.on_update
        && !matches!(field.kind, Kind::Date | Kind::Other)
    {
        d.error(
            at,
            format!(
                "`on_update = now` needs a date field, `{}` is {}",
                field.name,
                kind_text(field)
            ),
        )
        .help("make it a `Timestamp`");
    }
}

/// A literal default fits the type of the field. rustc checks paths: it knows what they name.
fn literal_default(field: &Field, value: &Expr, d: &mut Diagnostics) {
    let is_path = matches!(value, Expr::Path(_));
    let text = options::as_text(value);
    if field.has(Flag::Primary) {
        return key_default(field, value, d);
    }
    let own = if field.kind == Kind::Integer {
        "i64"
    } else {
        "f64"
    };
    let suffix = options::suffixed(value)
        .filter(|(suffix, _)| matches!(field.kind, Kind::Integer | Kind::Number) && suffix != own);
    let problem = match field.kind {
        _ if suffix.is_some() => "has another type",
        // Only rustc knows the value of a path.
        _ if is_path => return,
        Kind::Uuid => match text {
            Some(text) if is_uuid(&text.value()) => return,
            Some(_) => "is no hyphenated uuid",
            None => "has another type",
        },
        Kind::Integer => match options::as_int(value) {
            Some(Ok(n)) if (-MAX_INTEGER..=MAX_INTEGER).contains(&n) => return,
            Some(_) => "is beyond ±(2^53−1), which JSON cannot carry",
            None => "is not an integer",
        },
        Kind::Date => match text {
            Some(text) if date::parse(&text.value()).is_some() => return,
            Some(_) => "is no RFC 3339 instant such as \"2020-01-01T00:00:00Z\"",
            None => "has another type",
        },
        kind if suffix.is_none() && literal_fits(kind, value) => return,
        _ => "has another type",
    };
    let shown = value.to_token_stream();
    let name = &field.name;
    let message = match field.kind {
        Kind::Other => format!(
            "default {shown} is not a variant of `{}`",
            type_text(&field.inner)
        ),
        _ => format!(
            "default {shown} {problem}: `{name}` is {}",
            kind_text(field)
        ),
    };
    let help = match field.kind {
        Kind::String => "a text: `default = \"..\"`".to_owned(),
        Kind::Uuid => "`default = uuid`".to_owned(),
        Kind::Boolean => "`default = false`".to_owned(),
        Kind::Integer | Kind::Number if let Some((_, digits)) = suffix => {
            format!("`default = {digits}`")
        }
        Kind::Integer => format!(
            "`default = {}`",
            text.and_then(|text| text.value().parse::<i64>().ok())
                .unwrap_or(0)
        ),
        Kind::Number => "`default = 0.0`".to_owned(),
        Kind::Date => "`default = now`".to_owned(),
        Kind::StringArray => "`default = [\"..\"]`, or leave it out for the empty list".to_owned(),
        Kind::Json | Kind::Items => "the path of a const, or leave it out".to_owned(),
        Kind::Other => format!("a path: `default = {}::..`", type_text(&field.inner)),
    };
    d.error(value, message).help(help);
}

/// A key identifies a record, so it cannot have a fixed default.
fn key_default(field: &Field, value: &Expr, d: &mut Diagnostics) {
    let made = options::as_text(value)
        .map(syn::LitStr::value)
        .filter(|text| ["uuid", "cuid"].contains(&text.as_str()));
    let help = match (field.kind, made) {
        (Kind::Uuid, Some(_)) => "`default = uuid`".to_owned(),
        (_, Some(made)) => format!("`default = {made}`"),
        (Kind::Integer, None) => {
            "leave it out: who creates a record gives it its number".to_owned()
        }
        (_, None) => "`default = uuid`, or leave it out".to_owned(),
    };
    d.error(
        value,
        format!("all records would have the key {}", value.to_token_stream()),
    )
    .help(help);
}

/// Whether a literal has the type, as far as the tokens show it.
fn literal_fits(kind: Kind, value: &Expr) -> bool {
    let text = options::as_text(value).is_some();
    match kind {
        Kind::String => text,
        Kind::Boolean => matches!(
            value,
            Expr::Lit(ExprLit {
                lit: Lit::Bool(_),
                ..
            })
        ),
        Kind::Number => options::as_int(value).is_some() || as_float(value).is_some(),
        Kind::StringArray => texts(value).is_some(),
        Kind::Items => matches!(value, Expr::Array(array) if array.elems.is_empty()),
        // An enum or an alias: a plain text cannot be a value of either; rustc checks the rest.
        Kind::Other => !text,
        _ => false,
    }
}

/// Checks options that exclude each other, and combinations in which the field can never get a
/// value.
fn exclusions(field: &Field, d: &mut Diagnostics) {
    let exclude = [
        (
            Flag::ReadOnly,
            Flag::WriteOnly,
            "nobody could use the field",
        ),
        (Flag::Private, Flag::WriteOnly, "`private` hides more"),
        (
            Flag::Private,
            Flag::ReadOnly,
            "`private` fields are never returned",
        ),
        (
            Flag::ReadOnly,
            Flag::Immutable,
            "`read_only` fields are never accepted",
        ),
        (
            Flag::ReadOnly,
            Flag::ClientSet,
            "`read_only` fields are never accepted",
        ),
        (
            Flag::ReadOnly,
            Flag::Primary,
            "a generated key is read-only already",
        ),
    ];
    for (one, other, why) in exclude {
        if let (Some(one), Some(other)) = (field.options.flag(one), field.options.flag(other)) {
            d.error(
                other,
                format!("`{one}` and `{other}` exclude each other: {why}"),
            )
            .help(format!("leave `{other}` or `{one}` out"));
        }
    }
    if let (Some(at), Some(_)) = (
        field.options.flag(Flag::Immutable),
        &field.options.on_update,
    ) {
        d.error(at, "`immutable` and `on_update` exclude each other")
            .help("leave one of them out");
    }
    if let Some(at) = field.options.flag(Flag::ClientSet) {
        const HELP: &str = "it belongs to a default of `uuid`, `cuid` or `now`";
        if matches!(field.options.default, Default::Ctx(..)) {
            d.error(
                at,
                format!(
                    "`client_set` on `{}`: clients never supply values of the context",
                    field.name
                ),
            )
            .help(HELP);
        } else if !field.options.default.is_generated() {
            d.error(
                at,
                format!(
                    "`client_set` on `{}`, which no client is kept from setting",
                    field.name
                ),
            )
            .help(HELP);
        }
    }
    if let Some(at) = field.options.flag(Flag::ReadOnly)
        && !field.optional
        && !field.has(Flag::Required)
        && !field.has_default()
        && field.options.on_update.is_none()
        && field.owned.is_none()
    {
        d.error(
            at,
            format!(
                "read_only field `{}` could never get its first value",
                field.name
            ),
        )
        .help(format!(
            "give it a default, or make it `Option<{}>`",
            type_text(&field.inner)
        ));
    }
}

/// `required` makes a list mandatory: omitting it does not mean the empty list. It has no meaning
/// for other types. Only rustc knows the type behind an alias.
fn required(field: &Field, d: &mut Diagnostics) {
    let Some(at) = field.options.flag(Flag::Required) else {
        return;
    };
    let name = &field.name;
    let (problem, help) = if field.optional {
        let list = type_text(&field.inner);
        (
            format!(
                "`required` on `{name}`, which is an `Option`: null is a value that may be left out"
            ),
            format!("make it a `{list}`"),
        )
    } else if field.options.default.is_some() {
        (
            "`required` and `default` exclude each other: a default is what is left out".to_owned(),
            "leave one of them out".to_owned(),
        )
    } else if field.server_owned() || field.has(Flag::Private) {
        (
            format!("`required` on `{name}`, which no client sends"),
            "leave the option out".to_owned(),
        )
    } else if !field.kind.is_list() && field.kind != Kind::Other {
        let help = "leave the option out: it is for lists, which are empty when they are left out"
            .to_owned();
        (
            format!("`{name}` is not optional, so `required` has no effect"),
            help,
        )
    } else {
        return;
    };
    d.error(at, problem).help(help);
}

/// `filterable` and `sortable` need a type that can be compared.
fn marks(field: &Field, d: &mut Diagnostics) {
    for (flag, verb, opaque) in [
        (Flag::Filterable, "filtered", field.kind.is_opaque()),
        (Flag::Sortable, "sorted", !field.kind.is_scalar()),
    ] {
        let Some(at) = field.options.flag(flag) else {
            continue;
        };
        if opaque {
            d.error(
                at,
                format!("`{}` ({}) cannot be {verb}", field.name, kind_text(field)),
            )
            .help("leave the option out");
        } else if let Some(hidden) = hidden(field) {
            d.error(
                at,
                format!(
                    "{hidden} field `{}` cannot be {verb} by clients",
                    field.name
                ),
            )
            .help("leave the option out");
        }
    }
}

/// The texts of `["a", "b"]`.
pub(crate) fn texts(value: &Expr) -> Option<Vec<syn::LitStr>> {
    match value {
        Expr::Array(array) => array
            .elems
            .iter()
            .map(|e| options::as_text(e).cloned())
            .collect(),
        Expr::Macro(mac) if mac.mac.path.is_ident("vec") => {
            let tokens: TokenStream = mac.mac.tokens.clone();
            syn::parse2::<syn::ExprArray>(quote::quote!([#tokens]))
                .ok()
                .and_then(|array| texts(&Expr::Array(array)))
        }
        _ => None,
    }
}

/// Lower-case hyphenated.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}
