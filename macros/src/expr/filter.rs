//! Filters as written: `status == Status::Draft && (title.contains(param(q)) || pinned)`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{BinOp, Expr, ExprBinary, ExprMethodCall, Ident, UnOp};

use super::source::{Source, bare};
use crate::diagnostics::{Diagnostics, list, nearest};
use crate::options;

/// A filter.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // an expansion has few filters, so their size does not matter
pub(crate) enum Filter {
    /// `a && b`; never empty.
    All(Vec<Filter>),
    /// `a || b`; never empty.
    Any(Vec<Filter>),
    /// One condition.
    Cond {
        field: Ident,
        op: Op,
        /// The tokens of the operator, for errors.
        at: TokenStream,
        operand: Operand,
    },
}

/// The right side of a condition.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    One(Source),
    /// `[a, b]`.
    List(Vec<Source>),
    /// `one_of(param(xs))`: a parameter that holds a list.
    ListOf(Source),
    /// `field` alone and `!field`.
    Bool(bool),
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Nin,
    Contains,
    Has,
}

const OPERATORS: &[&str] = &["==", "!=", "<", "<=", ">", ">=", "&&", "||"];
const METHODS: &[&str] = &["one_of", "none_of", "contains", "has", "is_none", "is_some"];

impl Op {
    /// Returns the operator as written in a declaration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Gt => ">",
            Self::Gte => ">=",
            Self::Lt => "<",
            Self::Lte => "<=",
            Self::In => "one_of",
            Self::Nin => "none_of",
            Self::Contains => "contains",
            Self::Has => "has",
        }
    }

    /// The variant of the runtime's `Op`.
    pub(crate) fn variant(self) -> &'static str {
        match self {
            Self::Eq => "Eq",
            Self::Ne => "Ne",
            Self::Gt => "Gt",
            Self::Gte => "Gte",
            Self::Lt => "Lt",
            Self::Lte => "Lte",
            Self::In => "In",
            Self::Nin => "Nin",
            Self::Contains => "Contains",
            Self::Has => "Has",
        }
    }
}

impl Filter {
    /// Reads a filter and reports all errors in it.
    pub(crate) fn parse(expr: &Expr, d: &mut Diagnostics) -> Option<Self> {
        match bare(expr) {
            Expr::Binary(binary) => Self::binary(binary, d),
            Expr::MethodCall(call) => Self::method(call, d),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                match options::as_ident(bare(&unary.expr)) {
                    Some(field) => Some(Self::flag(field, false)),
                    None => {
                        d.error(&unary.op, "`!` negates only a boolean field")
                            .help("use the opposite operator: `!=`, `none_of`, `is_some`");
                        None
                    }
                }
            }
            Expr::Tuple(tuple) if tuple.elems.is_empty() => {
                d.error(tuple, "the filter is empty")
                    .help("`filter = (status == Status::Draft)`");
                None
            }
            other => match options::as_ident(other) {
                Some(field) => Some(Self::flag(field, true)),
                None => {
                    d.error(other, "expected a condition")
                        .help("`field == value`, `field.one_of([..])`, `a && b`");
                    None
                }
            },
        }
    }

    /// Returns the fields that have the same value in all matching records, and the source of the
    /// value. The source is `None` for a boolean field alone: `pinned` or `!pinned`.
    pub(crate) fn pinned(&self) -> Vec<(&Ident, Option<&Source>)> {
        match self {
            Self::All(list) => list.iter().flat_map(Self::pinned).collect(),
            Self::Cond {
                field,
                op: Op::Eq,
                operand: Operand::One(source),
                ..
            } => vec![(field, Some(source))],
            Self::Cond {
                field,
                op: Op::Eq,
                operand: Operand::Bool(_),
                ..
            } => vec![(field, None)],
            Self::Any(_) | Self::Cond { .. } => Vec::new(),
        }
    }

    /// Returns the fields that the filter names, as written.
    pub(crate) fn fields(&self) -> Vec<&Ident> {
        match self {
            Self::All(list) | Self::Any(list) => list.iter().flat_map(Self::fields).collect(),
            Self::Cond { field, .. } => vec![field],
        }
    }

    /// Returns the fields that an expression of an entity names. Errors are reported when the
    /// expression is resolved.
    pub(crate) fn named_fields(expr: &Expr) -> Vec<Ident> {
        let mut ignored = Diagnostics::new();
        let filter = Self::parse(expr, &mut ignored);
        ignored.ignore();
        filter.iter().flat_map(Self::fields).cloned().collect()
    }

    fn flag(field: &Ident, value: bool) -> Self {
        Self::Cond {
            field: field.clone(),
            op: Op::Eq,
            at: field.to_token_stream(),
            operand: Operand::Bool(value),
        }
    }

    fn binary(binary: &ExprBinary, d: &mut Diagnostics) -> Option<Self> {
        let op = match binary.op {
            BinOp::And(_) | BinOp::Or(_) => return Self::joined(binary, d),
            BinOp::Eq(_) => Op::Eq,
            BinOp::Ne(_) => Op::Ne,
            BinOp::Gt(_) => Op::Gt,
            BinOp::Ge(_) => Op::Gte,
            BinOp::Lt(_) => Op::Lt,
            BinOp::Le(_) => Op::Lte,
            other => {
                let text = other.to_token_stream().to_string();
                let problem = d.error(&other, format!("unknown operator `{text}`"));
                match text.as_str() {
                    "&" => problem.help("`&&`"),
                    "|" => problem.help("`||`"),
                    _ => problem.help(format!(
                        "supported: {}",
                        list(OPERATORS.iter().chain(METHODS))
                    )),
                }
                return None;
            }
        };
        let at = binary.op.to_token_stream();
        let operand = match bare(&binary.right) {
            Expr::Array(array) => {
                d.error(array, format!("`{}` takes one value", op.as_str()))
                    .help("`field.one_of([..])`");
                None
            }
            value => Source::parse(value, d),
        };
        let Some(field) = options::as_ident(bare(&binary.left)) else {
            d.error(&binary.left, "the left side of a condition must be a field")
                .help("`field == value`");
            return None;
        };
        Some(Self::Cond {
            field: field.clone(),
            op,
            at,
            operand: Operand::One(operand?),
        })
    }

    /// Returns `a && b && c` as one list, so that both sides are read even if one has an error.
    fn joined(binary: &ExprBinary, d: &mut Diagnostics) -> Option<Self> {
        let is_and = matches!(binary.op, BinOp::And(_));
        let (left, right) = (Self::parse(&binary.left, d), Self::parse(&binary.right, d));
        let mut members = Vec::new();
        for side in [left?, right?] {
            match side {
                Self::All(list) if is_and => members.extend(list),
                Self::Any(list) if !is_and => members.extend(list),
                other => members.push(other),
            }
        }
        Some(if is_and {
            Self::All(members)
        } else {
            Self::Any(members)
        })
    }

    fn method(call: &ExprMethodCall, d: &mut Diagnostics) -> Option<Self> {
        let name = call.method.to_string();
        let operand = match name.as_str() {
            "is_none" | "is_some" if call.args.is_empty() => {
                Some(Operand::One(Source::Null(Expr::MethodCall(call.clone()))))
            }
            "is_none" | "is_some" => {
                d.error(&call.args, format!("`{name}` takes no arguments"))
                    .help(format!("`{name}()`"));
                None
            }
            "one_of" | "none_of" => {
                one_argument(call, d).and_then(|value| operand_list(value, &name, d))
            }
            "contains" | "has" => one_argument(call, d)
                .and_then(|value| Source::parse(value, d))
                .map(Operand::One),
            _ => {
                let problem = d.error(
                    &call.method,
                    format!("unknown operator `{name}`; supported: {}", list(METHODS)),
                );
                if let Some(nearest) = nearest(&name, METHODS.iter().copied()) {
                    problem.help(format!("`{nearest}`"));
                }
                None
            }
        };
        let Some(field) = options::as_ident(bare(&call.receiver)) else {
            d.error(
                &call.receiver,
                "the left side of a condition must be a field",
            )
            .help(format!("`field.{name}(..)`"));
            return None;
        };
        let op = match name.as_str() {
            "one_of" => Op::In,
            "none_of" => Op::Nin,
            "contains" => Op::Contains,
            "has" => Op::Has,
            "is_some" => Op::Ne,
            _ => Op::Eq,
        };
        Some(Self::Cond {
            field: field.clone(),
            op,
            at: call.method.to_token_stream(),
            operand: operand?,
        })
    }
}

fn one_argument<'a>(call: &'a ExprMethodCall, d: &mut Diagnostics) -> Option<&'a Expr> {
    let argument = call.args.first().filter(|_| call.args.len() == 1);
    if argument.is_none() {
        d.error(&call.method, format!("`{}` takes one value", call.method));
    }
    argument
}

fn operand_list(value: &Expr, name: &str, d: &mut Diagnostics) -> Option<Operand> {
    match bare(value) {
        Expr::Array(array) if array.elems.is_empty() => {
            d.error(array, format!("the list of `{name}` is empty"));
            None
        }
        Expr::Array(array) => {
            let sources: Vec<Option<Source>> = array
                .elems
                .iter()
                .map(|element| Source::parse(element, d))
                .collect();
            sources
                .into_iter()
                .collect::<Option<_>>()
                .map(Operand::List)
        }
        other => match Source::parse(other, d)? {
            source @ (Source::Param(_) | Source::Input(_)) => Some(Operand::ListOf(source)),
            Source::Defaulted(name, _) => {
                d.error(
                    &name,
                    format!("parameter `{name}` is a list, so it cannot have a default"),
                )
                .help(format!("add `{name}` to `optional_params`"));
                None
            }
            _ => {
                d.error(other, format!("`{name}` takes a list"))
                    .help(format!("`{name}([a, b])` or `{name}(param(xs))`"));
                None
            }
        },
    }
}
