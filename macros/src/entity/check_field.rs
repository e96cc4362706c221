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
    check_generated_default(field, d);
    check_on_update(field, d);
    if let Default::Value(value) = &field.options.default {
        check_literal_default(field, value, d);
    }
    check_exclusions(field, d);
    check_required(field, d);
    check_filterable_and_sortable(field, d);
    check_rules::check(field, d);
}

/// Checks that a generated default fits the type of the field.
fn check_generated_default(field: &Field, d: &mut Diagnostics) {
    let (word, fits, wanted) = match &field.options.default {
        Default::Uuid(word) | Default::Cuid(word) => (word, field.kind.may_be_text(), "string"),
        Default::Now(word) => (word, matches!(field.kind, Kind::Date | Kind::Other), "date"),
        Default::Ctx(path, at) => return check_ctx_default(field, path, at, d),
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
            format!(
                "default `cuid` does not generate UUIDs, and `{}` is a Uuid",
                field.name
            ),
        )
        .help("`default = uuid`");
    }
}

/// Checks the type of a field with `default = ctx(..)`. A context value is a string; a claim may
/// also be a number or a boolean.
fn check_ctx_default(field: &Field, path: &CtxPath, at: &Expr, d: &mut Diagnostics) {
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

/// Checks that `on_update = now` is on a date field.
fn check_on_update(field: &Field, d: &mut Diagnostics) {
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

/// Checks that a literal default fits the type of the field. rustc checks defaults that are paths.
fn check_literal_default(field: &Field, value: &Expr, d: &mut Diagnostics) {
    let is_path = matches!(value, Expr::Path(_));
    let text = options::as_text(value);
    if field.has(Flag::Primary) {
        return check_key_default(field, value, d);
    }
    let own_suffix = if field.kind == Kind::Integer {
        "i64"
    } else {
        "f64"
    };
    let suffix = options::suffixed(value).filter(|(suffix, _)| {
        matches!(field.kind, Kind::Integer | Kind::Number) && suffix != own_suffix
    });
    let problem = match field.kind {
        _ if suffix.is_some() => "has another type",
        // Only rustc knows the value of a path.
        _ if is_path => return,
        Kind::Uuid => match text {
            Some(text) if is_uuid(&text.value()) => return,
            Some(_) => "is not a hyphenated UUID",
            None => "has another type",
        },
        Kind::Integer => match options::as_int(value) {
            Some(Ok(n)) if (-MAX_INTEGER..=MAX_INTEGER).contains(&n) => return,
            Some(_) => "is outside ±(2^53−1), the range of exact integers in JSON",
            None => "is not an integer",
        },
        Kind::Date => match text {
            Some(text) if date::parse(&text.value()).is_some() => return,
            Some(_) => "is not an RFC 3339 time such as \"2020-01-01T00:00:00Z\"",
            None => "has another type",
        },
        kind if suffix.is_none() && literal_fits(kind, value) => return,
        _ => "has another type",
    };
    let value_text = value.to_token_stream();
    let name = &field.name;
    let message = match field.kind {
        Kind::Other => format!(
            "default {value_text} is not a variant of `{}`",
            type_text(&field.inner)
        ),
        _ => format!(
            "default {value_text} {problem}: `{name}` is {}",
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

/// Checks the default of the primary key. A fixed default is refused: all records would have the
/// same key.
fn check_key_default(field: &Field, value: &Expr, d: &mut Diagnostics) {
    // `default = "uuid"` is a text; its author meant the generator `uuid`.
    let generator = options::as_text(value)
        .map(syn::LitStr::value)
        .filter(|text| ["uuid", "cuid"].contains(&text.as_str()));
    let help = match (field.kind, generator) {
        (Kind::Uuid, Some(_)) => "`default = uuid`".to_owned(),
        (_, Some(generator)) => format!("`default = {generator}`"),
        (Kind::Integer, None) => "remove it: each record needs a different key".to_owned(),
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
fn check_exclusions(field: &Field, d: &mut Diagnostics) {
    let exclude = [
        (
            Flag::ReadOnly,
            Flag::WriteOnly,
            "the field could be neither read nor written",
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
        const HELP: &str = "remove the option, or use it with a default of `uuid`, `cuid` or `now`";
        if matches!(field.options.default, Default::Ctx(..)) {
            d.error(
                at,
                format!(
                    "`client_set` is not allowed on `{}`: clients never supply values of the context",
                    field.name
                ),
            )
            .help(HELP);
        } else if !field.options.default.is_generated() {
            d.error(
                at,
                format!(
                    "`client_set` on `{}` has no effect: clients may already set the field",
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
        && field.server_only_reason.is_none()
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

/// Checks that `required` is on a list. With it, a missing list is an error instead of the empty
/// list. A type that is an alias is accepted, because only rustc knows whether it is a list.
fn check_required(field: &Field, d: &mut Diagnostics) {
    let Some(at) = field.options.flag(Flag::Required) else {
        return;
    };
    let name = &field.name;
    let (problem, help) = if field.optional {
        let list = type_text(&field.inner);
        (
            format!(
                "`required` is not allowed on `{name}`, which is an `Option`: an optional field may be missing"
            ),
            format!("make it a `{list}`"),
        )
    } else if field.options.default.is_some() {
        (
            "`required` and `default` exclude each other: a default applies if the value is \
             missing"
                .to_owned(),
            "leave one of them out".to_owned(),
        )
    } else if field.server_owned() || field.has(Flag::Private) {
        (
            format!("`required` has no effect on `{name}`: no client sends this field"),
            "leave the option out".to_owned(),
        )
    } else if !field.kind.is_list() && field.kind != Kind::Other {
        let help = "remove the option: it is only for lists; without it, a missing list is empty"
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

/// Checks that fields with `filterable` or `sortable` have a type that can be compared.
fn check_filterable_and_sortable(field: &Field, d: &mut Diagnostics) {
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

/// Returns the texts of `["a", "b"]`.
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

/// Whether a text is a lower-case hyphenated UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}
