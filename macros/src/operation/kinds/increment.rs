//! `increment`: adds to a numeric field in the statement itself.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{self, MAX_INTEGER, Scope, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) struct Increment;

impl Kind for Increment {
    fn name(&self) -> &'static str {
        "increment"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "atomic.increment"
    }

    fn options(&self) -> &'static [&'static str] {
        &["field", "by", "match"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["field"]
    }

    fn later(&self) -> &'static [&'static str] {
        &["buffered"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let matches = record::matches(args, name, scope);
        let field = field(args, scope);
        let by = by(args, field, scope);
        let (index, matches) = (scope.model.number(field.unwrap_or(0)), expr::assigns(&matches?));
        Some(Plan {
            descriptor: quote!(__lp::Increment::new(#index, #by, #matches)),
            shape: Shape::ById,
            method: Method::Post,
            returns: Returns::Record,
            errors: "`not_found`; `validation_failed` when the sum would leave the field's range.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

fn field(args: &Args, scope: &mut Scope<'_>) -> Option<usize> {
    let ident = args.ident("field", "field = views", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::Integer | Type::Number => {}
        Type::Other => {
            scope.needs(field, &ident, "NUMERIC", "increment");
        }
        _ => {
            scope.d.error(&ident, format!("increment needs a number, `{}` is {}", of.name, type_of(of)));
            return None;
        }
    }
    if record::mutable(field, &ident, scope)
        && record::no_key(field, &ident, "adding to it would name another", scope)
        && of.options.rules.one_of.is_some()
    {
        let text = format!("`{}` is one of a few numbers, which an addition would leave", of.name);
        scope.d.error(&ident, text).help("`kind = \"transition\"` from one of them to another, or `range` in place of `one_of`");
    }
    Some(field)
}

/// `by = 5`: not zero, whole for an integer.
fn by(args: &Args, field: Option<usize>, scope: &mut Scope<'_>) -> TokenStream {
    let one = quote!(__lp::Bound::Int(1));
    let Some(expr) = args.expr("by", "by = 5", scope.d) else { return one };
    let kind = field.map(|f| scope.at(f).kind);
    if let Some((_, digits)) = options::suffixed(expr) {
        scope.d.error(expr, "`by` is a number without a suffix").help(format!("`by = {digits}`"));
        return one;
    }
    let problem = match (options::as_int(expr), expr::number(expr)) {
        (Some(Ok(0)), _) => "`by` must not be 0",
        (Some(Ok(by)), _) if (-MAX_INTEGER..=MAX_INTEGER).contains(&by) => {
            let by = Literal::i64_unsuffixed(by);
            return quote!(__lp::Bound::Int(#by));
        }
        (Some(_), _) => "`by` is out of range: ±9007199254740991",
        (_, Some(_)) if kind == Some(Type::Integer) => "`by` must be whole: the field is integer",
        (_, Some(0.0)) => "`by` must not be 0",
        (_, Some(by)) if by.is_finite() => {
            let by = Literal::f64_unsuffixed(by);
            return quote!(__lp::Bound::Float(#by));
        }
        _ => "`by` is a number",
    };
    scope.d.error(&expr.to_token_stream(), problem).help("`by = 5`");
    one
}
