//! `aggregate`: computes numbers over all records, or over each group of records.

use linchpin_vocabulary::kind;
use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Token, parenthesized};

use super::record::{self, Optional};
use super::{Input, Kind, KindModel, Numbers, Plan, Returns, Shape};
use crate::diagnostics::list;
use crate::entity::{Kind as Type, field_number};
use crate::expr::{self, Filter, Resolved, Scope, type_of};
use crate::names;
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options;

const FUNCTIONS: &[&str] = &["count", "sum", "avg", "min", "max", "count_by"];
const PERIODS: &[&str] = &["year", "month", "week", "day", "hour"];

pub(super) const KIND: Kind = Kind::new(
    &kind::AGGREGATE,
    &["compute", "group_by", "filter", "optional_params"],
    &["compute"],
    model,
);

struct Aggregate {
    /// The name of the struct that a call returns: `StatsRow`.
    row: Ident,
    optional: Optional,
    filter: Option<Resolved>,
    key: Option<Key>,
    outputs: Vec<Output>,
}

fn model(input: &Input<'_>, scope: &mut Scope<'_>) -> Box<dyn KindModel> {
    let args = input.args;
    let optional = record::optional(args, scope);
    let filter = args
        .expr("filter", "filter = (status == Status::Published)", scope.d)
        .and_then(|expr| {
            let filter = Filter::parse(expr, scope.d)?;
            scope.filter(&filter, &optional.names)
        });
    let key = args
        .expr("group_by", "group_by = status", scope.d)
        .and_then(|expr| key(expr, scope));
    let outputs = outputs(args, &optional.names, scope);
    let row = Ident::new(
        &format!("{}Row", names::pascal(input.name)),
        Span::call_site(),
    );
    Box::new(Aggregate {
        row,
        optional,
        filter,
        key,
        outputs,
    })
}

impl KindModel for Aggregate {
    fn check(&self, _: &Input<'_>, scope: &mut Scope<'_>) {
        self.optional.check(scope);
        for output in &self.outputs {
            let name = output.name.unraw();
            if self.collides(output, scope) {
                scope
                    .d
                    .error(
                        &output.name,
                        format!("output `{name}` collides with group_by"),
                    )
                    .help("another name");
            }
        }
    }

    fn plan(&self, scope: &Scope<'_>) -> Option<Plan> {
        // A struct cannot have two members with the same name. An output with the name of the key
        // has been reported, so it is left out.
        let outputs = self
            .outputs
            .iter()
            .filter(|output| !self.collides(output, scope));
        let members = self
            .key
            .iter()
            .map(|key| key.member(scope))
            .chain(outputs.map(|output| output.member(scope)));
        let row = Numbers {
            name: self.row.clone(),
            grouped: self.key.is_some(),
            members: members.collect(),
        };
        let errors = "`validation_failed` for a sum that its type cannot hold, or too many groups.";
        Some(Plan::new(
            Shape::COLLECTION,
            Method::Get,
            Returns::Numbers(row),
            errors,
        ))
    }

    fn expand(&self) -> TokenStream {
        let filter = self.filter.as_ref().map(|filter| quote!(.filter(#filter)));
        let key = self.key.as_ref().map(|Key { number, period, .. }| {
            match period.map(|period| Ident::new(&names::pascal(period), Span::call_site())) {
                Some(period) => quote!(.per(__lp::Truncate::#period, #number)),
                None => quote!(.by(#number)),
            }
        });
        let outputs = self.outputs.iter().map(Output::tokens);
        quote!(__lp::Aggregate::new(&[#(#outputs),*]) #filter #key)
    }
}

impl Aggregate {
    /// Whether a computed value has the same name as the key.
    fn collides(&self, output: &Output, scope: &Scope<'_>) -> bool {
        let key = self
            .key
            .as_ref()
            .map(|key| names::camel(&scope.at(key.field).name));
        key.is_some_and(|key| key == names::camel(&output.name.unraw().to_string()))
    }
}

/// The field or date part that groups records.
struct Key {
    at: Ident,
    field: usize,
    number: Literal,
    period: Option<&'static str>,
}

impl Key {
    /// Returns the name, the type and the doc of the member in the returned struct.
    fn member(&self, scope: &Scope<'_>) -> (Ident, TokenStream, String) {
        let of = scope.at(self.field);
        let position = expr::position(scope, self.field, &self.at.to_token_stream());
        let krate = &scope.model.krate;
        let ty = match self.period {
            Some(_) => quote!(::std::string::String),
            None => quote!(#krate::ValueAt<#position>),
        };
        let ty = if of.optional {
            quote!(::core::option::Option<#ty>)
        } else {
            ty
        };
        let doc = match self.period {
            Some(period) => format!("The {period} of `{}`.", of.name),
            None => format!("The `{}` of all records in the group.", of.name),
        };
        (self.at.clone(), ty, doc)
    }
}

/// `status` or `month(created_at)`.
fn key(expr: &Expr, scope: &mut Scope<'_>) -> Option<Key> {
    const EXAMPLE: &str = "`group_by = status` or `group_by = month(created_at)`";
    let (field, period) = match expr {
        Expr::Call(call) => {
            let known = options::as_ident(&call.func)
                .and_then(|name| PERIODS.iter().find(|period| name == *period));
            let Some(period) = known else {
                scope.d.error(
                    &call.func,
                    format!("unknown period; known: {}", list(PERIODS)),
                );
                return None;
            };
            let field = call
                .args
                .first()
                .filter(|_| call.args.len() == 1)
                .and_then(options::as_ident);
            (field, Some((*period, &call.func)))
        }
        other => (options::as_ident(other), None),
    };
    let Some(at) = field else {
        scope
            .d
            .error(
                expr,
                "`group_by` needs a field, or a period of a date field",
            )
            .help(EXAMPLE);
        return None;
    };
    let field = scope.field(at)?;
    let of = scope.at(field);
    let name = of.name.clone();
    if !of.readable() {
        scope.d.error(
            at,
            format!("`{name}` is hidden: groups would reveal what clients may not read"),
        );
    } else if let Some((period, function)) = &period {
        match of.kind {
            Type::Date => {}
            Type::Other => scope.needs(field, at, "DATES", &format!("`{period}`")),
            _ => {
                scope.d.error(
                    function,
                    format!("`{period}` needs a date field, `{name}` is {}", type_of(of)),
                );
            }
        }
    } else if !of.kind.is_scalar() {
        let text = format!("cannot group by `{name}` ({})", type_of(of));
        scope
            .d
            .error(at, text)
            .help("a field of plain values, or a period of a date: `week(created_at)`");
    } else if of.kind == Type::Other {
        scope.needs(field, at, "SCALARS", "`group_by`");
    }
    Some(Key {
        at: at.clone(),
        field,
        number: scope.model.number(field),
        period: period.map(|(period, _)| period),
    })
}

/// A member of `compute(..)` as written.
pub(super) struct Written {
    pub(super) name: Ident,
    pub(super) function: Call,
}

/// `sum(views, where = expr)`.
pub(super) struct Call {
    function: Ident,
    field: Option<Ident>,
    /// The condition of `where`, or the argument of `count`.
    only: Option<Expr>,
}

impl Parse for Written {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` needs a function\nhelp: `{name} = count()`"),
            ));
        }
        input.parse::<Token![=]>()?;
        Ok(Self {
            name,
            function: input.parse()?,
        })
    }
}

impl Parse for Call {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let function: Ident = input.parse()?;
        let inside;
        parenthesized!(inside in input);
        if function == "count" {
            let only = if inside.is_empty() {
                None
            } else {
                Some(inside.parse()?)
            };
            return Ok(Self {
                function,
                field: None,
                only,
            });
        }
        let field = if inside.is_empty() {
            None
        } else {
            Some(inside.call(Ident::parse_any)?)
        };
        let mut only = None;
        if !inside.is_empty() {
            inside.parse::<Token![,]>()?;
        }
        if !inside.is_empty() {
            inside.parse::<Token![where]>()?;
            inside.parse::<Token![=]>()?;
            only = Some(inside.parse()?);
        }
        Ok(Self {
            function,
            field,
            only,
        })
    }
}

/// A resolved function of `compute`.
pub(super) struct Measure {
    /// `sum`.
    pub(super) function: &'static str,
    pub(super) field: usize,
    pub(super) at: Ident,
    /// The condition that a record must satisfy to be included.
    pub(super) only: Option<Resolved>,
}

/// One member of the response.
struct Output {
    name: Ident,
    measure: Measure,
}

fn outputs(args: &Args, optional: &[String], scope: &mut Scope<'_>) -> Vec<Output> {
    let Some(opt) = args.get("compute") else {
        return Vec::new();
    };
    let written: Vec<Written> = opt
        .list("compute(total = count())", scope.d)
        .map(|list| options::each(list, scope.d))
        .unwrap_or_default();
    if written.is_empty() && opt.is_empty_list() {
        scope
            .d
            .error(&opt.key, "`compute` is empty")
            .help("`compute(total = count())`");
    }
    let mut outputs: Vec<Output> = Vec::new();
    for Written { name, function } in written {
        let wire = names::camel(&name.unraw().to_string());
        if outputs
            .iter()
            .any(|other| names::camel(&other.name.unraw().to_string()) == wire)
        {
            scope.d.error(
                &name,
                format!("output `{}` repeated in compute", name.unraw()),
            );
        } else if wire.is_empty()
            || name == "self"
            || name == "super"
            || name == "crate"
            || name == "Self"
        {
            scope
                .d
                .error(&name, format!("`{name}` is not a valid output name"));
        } else if let Some(measure) = measure(function, optional, scope) {
            outputs.push(Output { name, measure });
        }
    }
    outputs
}

/// Resolves a function of a field, such as `sum(views)`.
pub(super) fn measure(
    written: Call,
    optional: &[String],
    scope: &mut Scope<'_>,
) -> Option<Measure> {
    let Call {
        function: at,
        field,
        only,
    } = written;
    let text = at.to_string();
    let Some(function) = FUNCTIONS
        .iter()
        .find(|function| **function == text)
        .copied()
    else {
        scope
            .d
            .error(&at, format!("unknown function `{text}`"))
            .suggest(&text, FUNCTIONS.iter().copied());
        return None;
    };
    let only = only.and_then(|expr| {
        if function == "count_by" {
            scope
                .d
                .error(&expr, "`count_by` does not accept a condition")
                .help("use the `filter` of the operation, or `count(..)` with a condition");
            return None;
        }
        let filter = Filter::parse(&expr, scope.d)?;
        scope.filter(&filter, optional)
    });
    if function == "count" {
        return Some(Measure {
            function,
            field: 0,
            at,
            only,
        });
    }
    let Some(ident) = field else {
        scope
            .d
            .error(&at, format!("`{function}` takes a field"))
            .help(format!("`{function}(views)`"));
        return None;
    };
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    let (fits, kinds) = match function {
        "sum" | "avg" => (
            matches!(of.kind, Type::Integer | Type::Number | Type::Other),
            "NUMERIC",
        ),
        "min" | "max" => (of.kind.is_scalar() && of.kind != Type::Boolean, "ORDERED"),
        _ => (
            of.kind.is_scalar() && !matches!(of.kind, Type::Number | Type::Date),
            "STATES",
        ),
    };
    let (verb, name) = (function.replace('_', " "), of.name.clone());
    if !of.readable() {
        scope.d.error(
            &ident,
            format!("`{name}` is hidden: `{function}` would reveal what clients may not read"),
        );
    } else if !fits {
        scope.d.error(
            &ident,
            format!("cannot {verb} {} field `{name}`", type_of(of)),
        );
    } else if of.kind == Type::Other {
        scope.needs(field, &ident, kinds, &format!("`{function}`"));
    }
    Some(Measure {
        function,
        field,
        at: ident,
        only,
    })
}

impl Output {
    /// Returns the name, the type and the doc of the member in the returned struct.
    fn member(&self, scope: &Scope<'_>) -> (Ident, TokenStream, String) {
        let Measure {
            function,
            field,
            at,
            only,
        } = &self.measure;
        let krate = &scope.model.krate;
        let value = || {
            let position = expr::position(scope, *field, &at.to_token_stream());
            quote!(#krate::ValueAt<#position>)
        };
        let ty = match *function {
            "count" => quote!(i64),
            "sum" => value(),
            "avg" => quote!(::core::option::Option<f64>),
            "count_by" => quote!(::std::collections::BTreeMap<::std::string::String, i64>),
            _ => {
                let value = value();
                quote!(::core::option::Option<#value>)
            }
        };
        let field_name = if *function == "count" {
            String::new()
        } else {
            scope.at(*field).name.clone()
        };
        let condition = if only.is_some() {
            ", only of the records that match its condition"
        } else {
            ""
        };
        (
            names::ident(&self.name.unraw().to_string(), self.name.span()),
            ty,
            format!("`{function}({field_name})`{condition}."),
        )
    }

    fn tokens(&self) -> TokenStream {
        tokens(&self.measure, &names::camel(&self.name.unraw().to_string()))
    }
}

/// Returns the descriptor of a measure with a name.
pub(super) fn tokens(
    Measure {
        function,
        field,
        at,
        only,
    }: &Measure,
    wire: &str,
) -> TokenStream {
    let field = field_number(*field, &at.unraw().to_string());
    let only = only.as_ref().map(|only| quote!(.only(#only)));
    match *function {
        "count" => quote!(__lp::Output::count(#wire) #only),
        "count_by" => quote!(__lp::Output::count_by(#wire, #field)),
        other => {
            let function = Ident::new(&names::pascal(other), Span::call_site());
            quote!(__lp::Output::of(#wire, __lp::Function::#function, #field) #only)
        }
    }
}
