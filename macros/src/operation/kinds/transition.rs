//! `transition`: moves a field from one of some values to another.

use quote::{ToTokens, quote};
use syn::{Expr, Ident};

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{self, Op, Role, Scope, Source, Value, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) struct Transition;

impl Kind for Transition {
    fn name(&self) -> &'static str {
        "transition"
    }

    fn capability(&self) -> &'static str {
        "atomic.transition"
    }

    fn options(&self) -> &'static [&'static str] {
        &["field", "from", "to", "match", "set", "returns", "already"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["field", "from", "to"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let matches = record::matches(args, name, scope);
        let set = args.pairs("set", scope.d);
        let set = scope.assigns(&set, |_| Role::Write);
        let field = state(args, scope);
        record::written(&set, field.as_ref().map(|(index, _)| *index), scope);
        let boolean = args.choice("returns", &["entity", "boolean"], scope.d) == "boolean";
        let (from, to) = match &field {
            Some((index, ident)) => (from(args, *index, ident, scope), to(args, *index, ident, scope)),
            None => (Vec::new(), None),
        };
        if let (Some((_, ident)), Some((to, at))) = (&field, &to)
            && from.iter().any(|(value, _)| same(value, to, scope, field.as_ref().map(|f| f.0)))
        {
            let text = format!("transition `{name}` leads from `{}` to itself", shown(at));
            scope.d.error(at, text).help(format!("another value of `{ident}`"));
        }

        let index = expr::index(field.as_ref().map_or(0, |(index, _)| *index));
        let from = from.iter().map(|(value, _)| closure(value));
        let to = to.as_ref().map(|(value, _)| closure(value));
        let (matches, set) = (expr::assigns(&matches?), expr::unless_empty("set", &set));
        let flag = boolean.then(|| quote!(.boolean()));
        let already = args.get("already").map(|_| {
            args.choice("already", &["ok"], scope.d);
            quote!(.already_ok())
        });
        Some(Plan {
            descriptor: quote!(__lp::Transition::new(#index, &[#(#from),*], #to, #matches) #set #already #flag),
            shape: Shape::ById,
            method: Method::Post,
            returns: if boolean { Returns::Boolean } else { Returns::Record },
            errors: "`not_found`; `invalid_transition` from another state; `validation_failed`.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

/// `field = status`: an enum, boolean, integer or string that may change.
fn state(args: &Args, scope: &mut Scope<'_>) -> Option<(usize, Ident)> {
    let ident = args.ident("field", "field = status", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::String | Type::Boolean | Type::Integer => {}
        Type::Other => {
            let text = format!("transition needs an enum, boolean, integer or string field, which `{}` is not", of.name);
            scope.require(field, &ident, "STATES", &text);
        }
        _ => {
            let text = format!("transition needs an enum, boolean, integer or string field, `{}` is {}", of.name, type_of(of));
            scope.d.error(&ident, text);
            return None;
        }
    }
    record::mutable(field, &ident, scope);
    Some((field, ident))
}

type Written = (Value, Expr);

fn from(args: &Args, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Vec<Written> {
    let values: Vec<Expr> = match args.expr("from", "from = Status::Draft", scope.d) {
        Some(Expr::Array(array)) => {
            if array.elems.is_empty() {
                scope.d.error(array, "`from` is empty").help("`from = [Status::Draft]`");
            }
            array.elems.iter().cloned().collect()
        }
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    };
    let mut from: Vec<Written> = Vec::new();
    for expr in values {
        let Some(value) = value(&expr, "from", field, ident, scope) else { continue };
        if from.iter().any(|(other, _)| same(other, &value, scope, Some(field))) {
            scope.d.error(&expr, format!("`{}` repeated in `from`", shown(&expr)));
        } else {
            from.push((value, expr));
        }
    }
    from
}

fn to(args: &Args, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Option<Written> {
    let expr = args.expr("to", "to = Status::Published", scope.d)?.clone();
    if let Expr::Call(call) = &expr
        && options::as_ident(&call.func).is_some_and(|f| f == "one_of")
    {
        scope.d.error(&expr, "a choice of targets is not supported yet").help("one value");
        return None;
    }
    value(&expr, "to", field, ident, scope).map(|value| (value, expr))
}

/// A value of the state field: a literal or the path of a const.
fn value(expr: &Expr, option: &str, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Option<Value> {
    match Source::parse(expr, scope.d)? {
        Source::Literal(literal) if scope.model.visibility.marks_deleted(field, &literal) => {
            let text = match option {
                "to" => format!("use delete instead of a transition to `{}`", shown(expr)),
                _ => format!("`{}` marks deleted records, which no transition meets", shown(expr)),
            };
            scope.d.error(&literal, text).help("another value");
            None
        }
        Source::Literal(literal) => expr::closure(scope, field, ident, &literal, Role::Compare { op: Op::Eq, required: true }),
        other => {
            scope.d.error(&other.tokens(), format!("`{option}` is fixed in the declaration")).help("a literal or the path of a const");
            None
        }
    }
}

/// Whether two values are the same as far as tokens tell: variants count by their last name.
fn same(a: &Value, b: &Value, scope: &Scope<'_>, field: Option<usize>) -> bool {
    let (Value::Literal(_, a), Value::Literal(_, b)) = (a, b) else { return false };
    let is_enum = field.is_some_and(|f| scope.at(f).kind == Type::Other);
    let last = |text: &str| text.rsplit("::").next().unwrap_or(text).trim().to_owned();
    a == b || (is_enum && a.contains("::") && b.contains("::") && last(a) == last(b))
}

fn closure(value: &Value) -> proc_macro2::TokenStream {
    match value {
        Value::Literal(closure, _) => closure.clone(),
        // Only literals get here.
        _ => quote!(__lp::null),
    }
}

/// An expression as people write it.
fn shown(expr: &Expr) -> String {
    expr.to_token_stream().to_string().replace(" :: ", "::").replace("- ", "-")
}
