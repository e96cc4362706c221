//! `transition`: moves a field from one of several values to another, or to the value that a
//! function chooses.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, Ident, Path};

use super::record::{self, Matches};
use super::{Input, Kind, KindModel, Plan, Returns, Shape};
use crate::entity::{Kind as Type, check_written};
use crate::expr::{
    self, Assign, Assumption, Cond, Op, Resolved, Role, Scope, Source, Value, type_of,
};
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

pub(super) const KIND: Kind = Kind::new(
    &kind::TRANSITION,
    &["field", "from", "to", "match", "set", "returns", "already"],
    &["field", "from", "to"],
    model,
);

struct Transition {
    matches: Matches,
    set: Vec<Assign>,
    /// The state field, and its name as written.
    field: Option<(usize, Ident)>,
    number: Literal,
    from: Vec<Written>,
    to: Vec<Written>,
    /// The call of the function that chooses one of several values of `to`.
    chosen: Option<TokenStream>,
    /// Whether it returns a boolean instead of the record.
    boolean: bool,
    /// `already = "ok"`: whether a record that already has the new value is accepted.
    already: bool,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let matches = Matches::resolve(args, scope);
    let set = args.pairs("set", scope.d);
    let set = scope.assigns(&set, |_| Role::Write);
    let field = state(args, scope);
    let boolean = args.choice("returns", &["entity", "boolean"], scope.d) == "boolean";
    let (from, Targets { to, by }) = match &field {
        Some((index, ident)) => (
            from(args, *index, ident, scope),
            to(args, *index, ident, scope),
        ),
        None => Default::default(),
    };
    let chosen = match (by, &field) {
        (Some(by), Some((index, ident))) if crate::SERVER => {
            let marker = expr::marker(scope, *index, &ident.to_token_stream());
            // The span is the path of the app, so that rustc reports a type error there.
            Some(
                quote_spanned!(by.span()=> .chosen(const { &((|call| __lp::choose::<#marker, _>(call, #by)) as __lp::Chooser) })),
            )
        }
        _ => None,
    };
    let already = args.get("already").is_some();
    if already {
        args.choice("already", &["ok"], scope.d);
    }
    let number = scope
        .model
        .number(field.as_ref().map_or(0, |(index, _)| *index));
    Box::new(Transition {
        matches,
        set,
        field,
        number,
        from,
        to,
        chosen,
        boolean,
        already,
    })
}

impl KindModel for Transition {
    fn check(&self, input: &Input<'_>, scope: &mut Scope<'_>) {
        self.matches.check(input, scope);
        let Self {
            field, from, to, ..
        } = self;
        if let Some((index, ident)) = field {
            record::mutable(*index, ident, scope);
        }
        record::check_set(&self.set, field.as_ref().map(|(index, _)| *index), scope);
        let Some((index, ident)) = field else { return };
        if let Some(matches) = self.matches.complete() {
            let values = from.iter().map(|(value, _)| value.clone()).collect();
            let from = Resolved::Cond(Cond {
                ident: ident.clone(),
                field: *index,
                op: Op::In,
                values,
                list: true,
            });
            let assumptions: Vec<Assumption> = Assumption::equal("`match`", matches)
                .into_iter()
                .chain(scope.visible())
                .collect();
            expr::check_stored(scope, "`from`", &from, &assumptions);
        }
        for (to, at) in to {
            if from
                .iter()
                .any(|(value, _)| expr::same(scope.at(*index), value, to))
            {
                let text = format!(
                    "transition `{}` leads from `{}` to itself",
                    input.name,
                    source_text(at)
                );
                scope
                    .d
                    .error(at, text)
                    .help(format!("another value of `{ident}`"));
            }
        }
    }

    fn plan(&self, _: &Scope<'_>) -> Option<Plan> {
        let returns = if self.boolean {
            Returns::Boolean
        } else {
            Returns::Record
        };
        let errors = "`not_found`; `invalid_transition` from another state; `validation_failed`.";
        self.matches
            .is_complete()
            .then(|| Plan::new(Shape::ById, Method::Post, returns, errors))
    }

    fn expand(&self) -> TokenStream {
        let (field, by) = (&self.number, &self.chosen);
        let from = self.from.iter().map(|(value, _)| closure(value));
        let to = self.to.iter().map(|(value, _)| closure(value));
        let (matches, set) = (self.matches.tokens(), expr::unless_empty("set", &self.set));
        let flag = self.boolean.then(|| quote!(.boolean()));
        let already = self.already.then(|| quote!(.already_ok()));
        quote!(__lp::Transition::new(#field, &[#(#from),*], &[#(#to),*], #matches) #by #set #already #flag)
    }
}

/// Reads `field = status`: an enum, boolean, integer or string that may change.
fn state(args: &Args, scope: &mut Scope<'_>) -> Option<(usize, Ident)> {
    let ident = args.ident("field", "field = status", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::String | Type::Boolean | Type::Integer => {}
        Type::Other => {
            scope.needs(field, &ident, "STATES", "transition");
        }
        _ => {
            let text = format!(
                "transition needs an enum, boolean, integer or string field, `{}` is {}",
                of.name,
                type_of(of)
            );
            scope.d.error(&ident, text);
            return None;
        }
    }
    Some((field, ident))
}

/// A value of the state field, and its expression as written.
type Written = (Value, Expr);

fn from(args: &Args, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Vec<Written> {
    let values: Vec<Expr> = match args.expr("from", "from = Status::Draft", scope.d) {
        Some(Expr::Array(array)) => {
            if array.elems.is_empty() {
                scope
                    .d
                    .error(array, "`from` is empty")
                    .help("`from = [Status::Draft]`");
            }
            array.elems.iter().cloned().collect()
        }
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    };
    distinct(values, "from", field, ident, scope)
}

/// Returns the values without duplicates, which are reported.
fn distinct(
    values: Vec<Expr>,
    option: &str,
    field: usize,
    ident: &Ident,
    scope: &mut Scope<'_>,
) -> Vec<Written> {
    let mut distinct_values: Vec<Written> = Vec::new();
    for expr in values {
        let Some(value) = value(&expr, option, field, ident, scope) else {
            continue;
        };
        if distinct_values
            .iter()
            .any(|(other, _)| expr::same(scope.at(field), other, &value))
        {
            scope.d.error(
                &expr,
                format!("`{}` repeated in `{option}`", source_text(&expr)),
            );
        } else {
            distinct_values.push((value, expr));
        }
    }
    distinct_values
}

/// The new value of a transition: one value, or several values and the function that chooses one.
#[derive(Default)]
struct Targets {
    to: Vec<Written>,
    by: Option<Path>,
}

fn to(args: &Args, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Targets {
    let Some(expr) = args.expr("to", "to = Status::Published", scope.d).cloned() else {
        return Targets::default();
    };
    match &expr {
        Expr::Call(call) if options::as_ident(&call.func).is_some_and(|f| f == "one_of") => {
            one_of(call, field, ident, scope)
        }
        Expr::Array(array) => {
            let values: Vec<String> = array.elems.iter().map(source_text).collect();
            let help = match &values[..] {
                [] => "`to = Status::Published`".to_owned(),
                [one] => format!("`to = {one}`"),
                all => format!(
                    "`to = one_of([{}], by = held)`, where `held` is a function that chooses",
                    all.join(", ")
                ),
            };
            scope.d.error(array, "`to` must be one value").help(help);
            Targets::default()
        }
        _ => Targets {
            to: distinct(vec![expr], "to", field, ident, scope),
            by: None,
        },
    }
}

/// Reads `one_of([Status::Published, Status::Pending], by = path)`.
fn one_of(call: &ExprCall, field: usize, ident: &Ident, scope: &mut Scope<'_>) -> Targets {
    const EXAMPLE: &str = "`to = one_of([Status::Published, Status::Pending], by = held)`";
    let args: Vec<&Expr> = call.args.iter().collect();
    let [Expr::Array(values), Expr::Assign(by)] = args[..] else {
        scope
            .d
            .error(
                call,
                "`one_of` needs a list of values and `by`, the function that chooses one",
            )
            .help(EXAMPLE);
        return Targets::default();
    };
    if values.elems.len() < 2 {
        scope
            .d
            .error(values, "`one_of` needs at least two values")
            .help("list at least two values, or write `to = ..` for a single value");
    }
    let to = distinct(
        values.elems.iter().cloned().collect(),
        "to",
        field,
        ident,
        scope,
    );
    match (options::as_ident(&by.left), &*by.right) {
        (Some(key), Expr::Path(path)) if key == "by" => Targets {
            to,
            by: Some(path.path.clone()),
        },
        (Some(key), other) if key == "by" => {
            scope
                .d
                .error(other, "`by` needs the path of a function")
                .help(EXAMPLE);
            Targets { to, by: None }
        }
        _ => {
            scope
                .d
                .error(&by.left, "`one_of` has only the option `by`")
                .help(EXAMPLE);
            Targets { to, by: None }
        }
    }
}

/// Reads a value of the state field: a literal or the path of a const.
fn value(
    expr: &Expr,
    option: &str,
    field: usize,
    ident: &Ident,
    scope: &mut Scope<'_>,
) -> Option<Value> {
    match Source::parse(expr, scope.d)? {
        Source::Literal(literal) if scope.model.visibility.marks_deleted(field, &literal) => {
            let text = match option {
                "to" => format!(
                    "use delete instead of a transition to `{}`",
                    source_text(expr)
                ),
                _ => format!(
                    "`{}` marks deleted records, which a transition cannot read",
                    source_text(expr)
                ),
            };
            scope.d.error(&literal, text).help("another value");
            None
        }
        Source::Literal(literal) => {
            // Only `to` must satisfy the constraints: `from` may be an old value that they no
            // longer allow.
            if option == "to" {
                check_written(scope.at(field), &literal, false, scope.d);
            }
            expr::closure(
                scope,
                field,
                ident,
                &literal,
                Role::Compare {
                    op: Op::Eq,
                    required: true,
                },
            )
        }
        other => {
            scope
                .d
                .error(
                    &other.tokens(),
                    format!("`{option}` must be a constant value"),
                )
                .help("a literal or the path of a const");
            None
        }
    }
}

fn closure(value: &Value) -> TokenStream {
    match value {
        Value::Literal(closure, _) => closure.clone(),
        // Never reached: all values of a transition are literals.
        _ => quote!(__lp::null),
    }
}

/// Formats an expression as in formatted source code.
fn source_text(expr: &Expr) -> String {
    expr.to_token_stream()
        .to_string()
        .replace(" :: ", "::")
        .replace("- ", "-")
}
