//! Literals: the macro checks the types that it knows, with readable messages. rustc checks the
//! rest, through the field's marker.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Expr, ExprLit, Ident, Lit};

use super::filter::Op;
use super::rules::type_of;
use super::scope::{Role, Scope, Value};
use super::{lower, source};
use crate::entity::{Kind, parse_date};
use crate::options;

pub(crate) use linchpin_vocabulary::limit::MAX_INTEGER;

/// Checks a literal of a field, and returns it with the closure that creates it. `None` after an
/// error.
pub(crate) fn closure(
    scope: &mut Scope<'_>,
    field: usize,
    ident: &Ident,
    expr: &Expr,
    role: Role,
) -> Option<Value> {
    let expr = source::bare(expr);
    let of = scope.at(field);
    let is_path = matches!(expr, Expr::Path(_));
    let at = ident.to_token_stream();
    let written = Box::new(expr.clone());
    let kind = match (of.kind, role) {
        // The right side of `has` is one element.
        (Kind::StringArray, Role::Compare { op: Op::Has, .. } | Role::Element) => {
            let tokens = match expr {
                _ if is_path || options::as_text(expr).is_some() => quote!(|| __lp::text(#expr)),
                _ => return mismatch(scope, field, expr),
            };
            return Some(Value::Literal(tokens, written));
        }
        (kind, _) => kind,
    };
    let make = |scope: &Scope<'_>, value: &TokenStream| {
        Some(Value::Literal(
            lower::literal(scope, field, &at, value),
            written.clone(),
        ))
    };
    match (kind, expr) {
        (
            Kind::String,
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }),
        ) => {
            if let Role::Compare {
                op: Op::Contains, ..
            } = role
                && text.value().is_empty()
            {
                scope.d.error(
                    text,
                    "`contains(\"\")` matches every text; write at least one character",
                );
                return None;
            }
            Some(Value::Literal(quote!(|| __lp::text(#text)), written))
        }
        // The const of a text is a `&'static str`.
        (Kind::String, Expr::Path(_)) => {
            Some(Value::Literal(quote!(|| __lp::text(#expr)), written))
        }
        (
            Kind::Uuid,
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }),
        ) => {
            if !is_uuid(&text.value()) {
                scope
                    .d
                    .error(text, "this is not a lower-case hyphenated UUID");
                return None;
            }
            Some(Value::Literal(quote!(|| __lp::text(#text)), written))
        }
        (
            Kind::Date,
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }),
        ) => match parse_date(&text.value()) {
            Some(millis) => Some(Value::Literal(quote!(|| __lp::date(#millis)), written)),
            None => {
                scope
                    .d
                    .error(text, "this is not an RFC 3339 date-time")
                    .help("`\"2026-01-02T03:04:05Z\"`");
                None
            }
        },
        (Kind::Integer | Kind::Number, _)
            if let Some((suffix, digits)) = options::suffixed(expr)
                && suffix != if kind == Kind::Integer { "i64" } else { "f64" } =>
        {
            let text = format!(
                "`{}` is {suffix}, `{}` is {}",
                source_text(expr),
                of.name,
                type_of(of)
            );
            scope.d.error(expr, text).help(format!("`{digits}`"));
            None
        }
        (Kind::Integer, _) if !is_path => match options::as_int(expr) {
            Some(Ok(value)) if (-MAX_INTEGER..=MAX_INTEGER).contains(&value) => {
                make(scope, &quote!(#expr))
            }
            Some(_) => {
                scope
                    .d
                    .error(expr, format!("integer out of range: ±{MAX_INTEGER}"));
                None
            }
            None => mismatch(scope, field, expr),
        },
        (Kind::Number, _) if !is_path => match (options::as_int(expr), number(expr)) {
            // An integer such as `3` also means 3.0.
            (Some(Ok(value)), _) => {
                let value = proc_macro2::Literal::f64_suffixed(value as f64);
                make(scope, &quote!(#value))
            }
            (_, Some(value)) if value.is_finite() => make(scope, &quote!(#expr)),
            _ => mismatch(scope, field, expr),
        },
        (
            Kind::Boolean,
            Expr::Lit(ExprLit {
                lit: Lit::Bool(_), ..
            }),
        ) => make(scope, &quote!(#expr)),
        (Kind::Other, _) => make(scope, &quote!(#expr)),
        _ if is_path => make(scope, &quote!(#expr)),
        _ => mismatch(scope, field, expr),
    }
}

fn mismatch(scope: &mut Scope<'_>, field: usize, expr: &Expr) -> Option<Value> {
    let of = scope.at(field);
    let text = format!(
        "`{}` is not a value of `{}`, which is {}",
        source_text(expr),
        of.name,
        type_of(of)
    );
    scope.d.error(expr, text);
    None
}

/// Formats a literal as in formatted source code.
fn source_text(expr: &Expr) -> String {
    expr.to_token_stream().to_string().replace("- ", "-")
}

/// Returns the number with its sign, if the expression is a number literal (`1.5`, `2`) without a
/// suffix or with the suffix `f64`.
pub(crate) fn number(expr: &Expr) -> Option<f64> {
    match source::bare(expr) {
        Expr::Lit(ExprLit {
            lit: Lit::Float(lit),
            ..
        }) if matches!(lit.suffix(), "" | "f64") => lit.base10_parse().ok(),
        Expr::Lit(ExprLit {
            lit: Lit::Int(lit), ..
        }) if matches!(lit.suffix(), "" | "f64") => lit.base10_digits().parse().ok(),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
            number(&unary.expr).map(|n| -n)
        }
        _ => None,
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}
