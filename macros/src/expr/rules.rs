//! The operators and sources that a field's type allows.

use proc_macro2::TokenStream;
use syn::Expr;

use super::filter::{Op, Operand};
use super::scope::{Role, Scope, Value};
use super::source::{CtxPath, Source};
use crate::entity::{Field, Kind};

/// Returns `string`, or the type as written if only rustc knows it.
pub(crate) fn type_of(field: &Field) -> String {
    field.kind.name().map_or_else(
        || quote::ToTokens::to_token_stream(&field.inner).to_string(),
        str::to_owned,
    )
}

/// Whether the field's type allows the operator; `None` after an error, which is already reported.
pub(super) fn operator(
    scope: &mut Scope<'_>,
    field: usize,
    op: Op,
    at: &TokenStream,
    operand: &Operand,
) -> Option<()> {
    let of = scope.at(field);
    let (name, kind, operator_text) = (&of.name, of.kind, op.as_str());
    // `is_none` and `is_some` are valid for every optional field. The check of the value covers
    // other uses of null.
    if matches!(operand, Operand::One(Source::Null(_))) && matches!(op, Op::Eq | Op::Ne) {
        return Some(());
    }
    if let Operand::Bool(_) = operand {
        return match kind {
            Kind::Boolean => Some(()),
            Kind::Other => {
                scope.require(
                    field,
                    at,
                    "BOOLEANS",
                    &format!("field `{name}` alone is not a condition: it is not boolean"),
                );
                Some(())
            }
            _ => {
                let text = format!(
                    "field `{name}` alone is not a condition: it is {}",
                    type_of(of)
                );
                scope.d.error(at, text).help(format!("`{name} == value`"));
                None
            }
        };
    }
    let (fits, kinds, needs) = match op {
        Op::Eq | Op::Ne | Op::In | Op::Nin => (kind.is_scalar(), "SCALARS", "a scalar field"),
        Op::Gt | Op::Gte | Op::Lt | Op::Lte => (
            kind.is_scalar() && kind != Kind::Boolean,
            "ORDERED",
            "a string, integer, number or date field",
        ),
        Op::Contains => (kind.may_be_text(), "TEXTS", "a string field"),
        Op::Has => (
            matches!(kind, Kind::StringArray | Kind::Other),
            "TEXT_LISTS",
            "a list of strings",
        ),
    };
    if !fits {
        let problem = scope.d.error(
            at,
            format!(
                "`{operator_text}` needs {needs}, `{name}` is {}",
                type_of(of)
            ),
        );
        match (op, kind) {
            (Op::Contains | Op::Eq, Kind::StringArray) => problem.help(format!("`{name}.has(..)`")),
            (Op::Has, Kind::String) => problem.help(format!("`{name}.contains(..)`")),
            _ => {}
        }
        return None;
    }
    if kind == Kind::Other {
        scope.needs(field, at, kinds, &format!("`{operator_text}`"));
    }
    Some(())
}

/// Whether a field can hold a context value or be compared with it.
pub(super) fn ctx(scope: &mut Scope<'_>, path: &CtxPath, field: usize, at: &Expr) -> bool {
    let of = scope.at(field);
    if let CtxPath::Value(path) = path {
        scope.add_context_value(field, path);
        return true;
    }
    let is_claim = matches!(path, CtxPath::Claim(_));
    let fits = if is_claim {
        of.kind.is_scalar() && of.kind != Kind::Date
    } else {
        of.kind.may_be_text() || of.kind == Kind::StringArray
    };
    if !fits {
        let what = if is_claim {
            "a claim is a string, a number or a boolean"
        } else {
            "this is a string"
        };
        scope
            .d
            .error(at, format!("{what}, `{}` is {}", of.name, type_of(of)));
    } else if of.kind == Kind::Other && !is_claim {
        scope.require(
            field,
            at,
            "NAMES",
            &format!("this value is a string, but `{}` is not", of.name),
        );
    }
    fits
}

/// Whether a field can hold the time of the call or be compared with it.
pub(super) fn now(scope: &mut Scope<'_>, field: usize, at: &Expr) -> bool {
    let of = scope.at(field);
    match of.kind {
        Kind::Date => true,
        Kind::Other => {
            scope.require(
                field,
                at,
                "DATES",
                &format!("`now()` is a date, but `{}` is not", of.name),
            );
            true
        }
        _ => {
            scope.d.error(
                at,
                format!("`now()` is a date, `{}` is {}", of.name, type_of(of)),
            );
            false
        }
    }
}

/// Whether a field can hold null or be compared with it.
pub(super) fn null(scope: &mut Scope<'_>, field: usize, at: &Expr, role: Role) -> bool {
    let of = scope.at(field);
    let text = match role {
        Role::Match => "a comparison with null matches no record".to_owned(),
        Role::Element => "null cannot be an element of a list of strings".to_owned(),
        Role::Compare {
            op: op @ (Op::Contains | Op::Has | Op::Gt | Op::Gte | Op::Lt | Op::Lte),
            ..
        } => {
            format!("`{}` is never true for null", op.as_str())
        }
        _ if of.optional => return true,
        _ => format!("`{}` is required: it is never null", of.name),
    };
    scope.d.error(at, text);
    false
}

/// Whether a field can have the value `uuid()` or `cuid()`: it is a text, and the value is used
/// when a record is created.
pub(super) fn new_id(
    scope: &mut Scope<'_>,
    name: &str,
    field: usize,
    at: &Expr,
    role: Role,
) -> Option<Value> {
    let of = scope.at(field);
    if role != Role::Create {
        scope
            .d
            .error(
                at,
                format!("`{name}()` is allowed only in defaults and in `on_create`"),
            )
            .help(format!("`#[field(default = {name})]`"));
        return None;
    }
    if !matches!(of.kind, Kind::String | Kind::Uuid) || (of.kind == Kind::Uuid && name == "cuid") {
        scope.d.error(
            at,
            format!("`{name}()` is text, `{}` is {}", of.name, type_of(of)),
        );
        return None;
    }
    let function = quote::format_ident!("{name}");
    Some(Value::Literal(
        quote::quote!(__lp::#function),
        Box::new(at.clone()),
    ))
}
