//! `increment`: adds to a numeric field in one statement, without reading the value first.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::Ident;

use super::record::{self, Matches};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::entity::Kind as Type;
use crate::expr::{self, MAX_INTEGER, Scope, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) const KIND: Kind = Kind {
    planned: &["buffered"],
    ..Kind::new(
        &kind::INCREMENT,
        &["field", "by", "match"],
        &["field"],
        model,
    )
};

struct Increment {
    matches: Matches,
    /// The field as written, and its position.
    field: Option<(Ident, usize)>,
    number: Literal,
    by: TokenStream,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let matches = Matches::resolve(input.args, scope);
    let field = field(input.args, scope);
    let at = field.as_ref().map(|(_, field)| *field);
    let by = by(input.args, at, scope);
    Box::new(Increment {
        matches,
        field,
        number: scope.model.number(at.unwrap_or(0)),
        by,
    })
}

impl KindModel for Increment {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        self.matches.check(input, scope);
        let Some((ident, field)) = &self.field else {
            return;
        };
        let of = scope.at(*field);
        if record::mutable(*field, ident, scope)
            && record::no_key(
                *field,
                ident,
                "an increment would make it refer to another record",
                scope,
            )
            && of.options.rules.one_of.is_some()
        {
            let text = format!(
                "`{}` has `one_of`, which an increment could violate",
                of.name
            );
            scope.d.error(ident, text).help("use `kind = \"transition\"` to change between the values, or `range` in place of `one_of`");
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let errors = "`not_found`; `validation_failed` when the sum would leave the field's range.";
        self.matches
            .is_complete()
            .then(|| Plan::new(Shape::ById, Method::Post, Returns::Record, errors))
    }

    fn expand(&self) -> TokenStream {
        let (field, by, matches) = (&self.number, &self.by, self.matches.tokens());
        quote!(__lp::Increment::new(#field, #by, #matches))
    }
}

/// Returns the field as written, and its position.
fn field(args: &Args, scope: &mut Scope<'_>) -> Option<(Ident, usize)> {
    let ident = args.ident("field", "field = views", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::Integer | Type::Number => {}
        Type::Other => {
            scope.needs(field, &ident, "NUMERIC", "increment");
        }
        _ => {
            scope.d.error(
                &ident,
                format!("increment needs a number, `{}` is {}", of.name, type_of(of)),
            );
            return None;
        }
    }
    Some((ident, field))
}

/// Reads `by = 5`: not zero, and an integer for an integer field.
fn by(args: &Args, field: Option<usize>, scope: &mut Scope<'_>) -> TokenStream {
    let one = quote!(__lp::Bound::Int(1));
    let Some(expr) = args.expr("by", "by = 5", scope.d) else {
        return one;
    };
    let kind = field.map(|f| scope.at(f).kind);
    if let Some((_, digits)) = options::suffixed(expr) {
        scope
            .d
            .error(expr, "`by` must be a number without a suffix")
            .help(format!("`by = {digits}`"));
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
    scope
        .d
        .error(&expr.to_token_stream(), problem)
        .help("`by = 5`");
    one
}
