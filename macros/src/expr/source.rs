//! Right-hand sides: literals, `param(x)`, `input(x)`, `ctx(actor.id)`, `now()`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprCall, Ident, Member, Path, Token};

use crate::diagnostics::{Diagnostics, list};
use crate::list::List;
use crate::options;

/// The source of a value, as written.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// `param(x)`.
    Param(Ident),
    /// `param(x, default = now())`: if a call omits the parameter, its value is `now()` or a
    /// literal.
    Defaulted(Ident, Box<Source>),
    /// `input(x)`.
    Input(Ident),
    /// `ctx(actor.id)`.
    Ctx(CtxPath, Expr),
    /// `now()`.
    Now(Expr),
    /// `uuid()` or `cuid()`: a new id per record.
    NewId(&'static str, Expr),
    /// `None`.
    Null(Expr),
    /// A literal, a variant or the path of a const.
    Literal(Expr),
}

/// A value of the request context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CtxPath {
    ActorId,
    TenantId,
    ActorKind,
    SessionId,
    Claim(String),
    /// A value that a plugin provides: the path of its marker.
    Value(Path),
}

const SOURCES: &[&str] = &["param", "input", "ctx", "now"];
const CONTEXT: &[&str] = &[
    "actor.id",
    "actor.tenant_id",
    "actor.kind",
    "actor.session_id",
    "actor.claims.<name>",
];

impl Source {
    /// Reads an expression as a source; other expressions are reported.
    pub(crate) fn parse(expr: &Expr, d: &mut Diagnostics) -> Option<Self> {
        match bare(expr) {
            Expr::Call(call) => Self::call(call, d),
            Expr::Path(path) if path.path.is_ident("None") => Some(Self::Null(expr.clone())),
            Expr::Path(path) if path.path.is_ident("now") => {
                d.error(path, "`now` needs parentheses").help("`now()`");
                None
            }
            Expr::Lit(_) | Expr::Path(_) => Some(Self::Literal(bare(expr).clone())),
            Expr::Unary(unary)
                if matches!(unary.op, syn::UnOp::Neg(_))
                    && matches!(bare(&unary.expr), Expr::Lit(_)) =>
            {
                Some(Self::Literal(bare(expr).clone()))
            }
            Expr::Binary(binary) if let Some((key, by)) = addition(binary) => {
                d.error(binary, addition_error(key, &by));
                None
            }
            other => {
                d.error(other, "this is not a valid value in a declaration")
                    .help("a literal, the path of a const, `param(x)`, `input(x)`, `ctx(actor.id)` or `now()`");
                None
            }
        }
    }

    /// Returns the tokens at which an error about the source is reported.
    pub(crate) fn tokens(&self) -> TokenStream {
        match self {
            Self::Param(ident) | Self::Defaulted(ident, _) | Self::Input(ident) => {
                ident.to_token_stream()
            }
            Self::Ctx(_, expr)
            | Self::Now(expr)
            | Self::NewId(_, expr)
            | Self::Null(expr)
            | Self::Literal(expr) => expr.to_token_stream(),
        }
    }

    /// Whether the caller provides the value.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self, Self::Param(_) | Self::Defaulted(..) | Self::Input(_))
    }

    fn call(call: &ExprCall, d: &mut Diagnostics) -> Option<Self> {
        let name = options::as_ident(&call.func)
            .map(|ident| ident.unraw().to_string())
            .unwrap_or_default();
        let call_expr = Expr::Call(call.clone());
        match name.as_str() {
            "param" => param_source(call, d),
            "input" => {
                if let Some((_, default)) = default_of(call) {
                    d.error(default, "`input` has no default")
                        .help("`param(x, default = ..)`");
                    return None;
                }
                name_of(call, "input", d).map(Self::Input)
            }
            "ctx" => match call.args.first() {
                Some(path) if call.args.len() == 1 => {
                    ctx(path, d).map(|path| Self::Ctx(path, call_expr))
                }
                _ => {
                    d.error(call, "`ctx` takes one path")
                        .help("`ctx(actor.id)`");
                    None
                }
            },
            "now" if call.args.is_empty() => Some(Self::Now(call_expr)),
            "now" => {
                d.error(&call.args, "`now` takes no arguments")
                    .help("`now()`");
                None
            }
            "uuid" if call.args.is_empty() => Some(Self::NewId("uuid", call_expr)),
            "cuid" if call.args.is_empty() => Some(Self::NewId("cuid", call_expr)),
            "uuid" | "cuid" => {
                d.error(&call.args, format!("`{name}` takes no arguments"))
                    .help(format!("`{name}()`"));
                None
            }
            _ => {
                d.error(&call.func, "unknown source of a value")
                    .suggest(&name, SOURCES.iter().copied());
                None
            }
        }
    }
}

/// Returns the expression inside parentheses and the invisible groups of `macro_rules!`.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => bare(&paren.expr),
        Expr::Group(group) => bare(&group.expr),
        _ => expr,
    }
}

/// `param(x)`, or `param(x, default = ..)`.
fn param_source(call: &ExprCall, d: &mut Diagnostics) -> Option<Source> {
    let Some((name, default)) = default_of(call) else {
        return name_of(call, "param", d).map(Source::Param);
    };
    let mut only_name = call.clone();
    only_name.args = std::iter::once(name.clone()).collect();
    let (name, value) = (name_of(&only_name, "param", d), bare(&default.right));
    let value = match Source::parse(value, d)? {
        value @ (Source::Now(_) | Source::Literal(_)) => value,
        other => {
            d.error(&other.tokens(), "a default must be a literal or `now()`")
                .help("`param(x, default = now())`");
            return None;
        }
    };
    name.map(|name| Source::Defaulted(name, Box::new(value)))
}

/// Returns the name and `default = ..` of a call with both.
fn default_of(call: &ExprCall) -> Option<(&Expr, &syn::ExprAssign)> {
    match call.args.iter().collect::<Vec<_>>()[..] {
        [name, Expr::Assign(default)]
            if options::as_ident(&default.left).is_some_and(|key| key == "default") =>
        {
            Some((name, default))
        }
        _ => None,
    }
}

/// Returns the only name in the parentheses of `param(x)` or `input(x)`.
fn name_of(call: &ExprCall, source: &str, d: &mut Diagnostics) -> Option<Ident> {
    let [argument] = call.args.iter().collect::<Vec<_>>()[..] else {
        let default_form = if source == "param" {
            ", or `param(slug, default = ..)`"
        } else {
            ""
        };
        d.error(call, format!("`{source}` takes one name"))
            .help(format!("`{source}(slug)`{default_form}"));
        return None;
    };
    if let Expr::Field(_) = bare(argument) {
        let path = dotted(argument);
        let mut ignored = Diagnostics::new();
        let known = path
            .as_ref()
            .and_then(|_| ctx(argument, &mut ignored))
            .is_some();
        ignored.ignore();
        let path = path.unwrap_or_default().join(".");
        let problem = d.error(
            call,
            format!("`{source}({path})` would let the client choose the context"),
        );
        // Clients can never supply values of the verified context.
        problem.help(if known {
            format!("`ctx({path})`")
        } else {
            format!("a plain name: `{source}(x)`")
        });
        return None;
    }
    match options::as_ident(bare(argument)) {
        Some(ident)
            if !["self", "Self", "super", "crate"].contains(&ident.to_string().as_str()) =>
        {
            Some(ident.clone())
        }
        _ => {
            d.error(argument, format!("`{source}` takes a plain name"))
                .help(format!("`{source}(slug)`"));
            None
        }
    }
}

fn ctx(expr: &Expr, d: &mut Diagnostics) -> Option<CtxPath> {
    // A value of the actor is written with dots. Any other path names an item, which rustc
    // resolves.
    if let Expr::Path(path) = bare(expr)
        && path.qself.is_none()
        && !path.path.is_ident("actor")
    {
        return Some(CtxPath::Value(path.path.clone()));
    }
    let Some(path) = dotted(expr) else {
        d.error(expr, "`ctx` takes a path of plain names")
            .help(format!("known: {}", list(CONTEXT)));
        return None;
    };
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts[..] {
        ["actor", "id"] => Some(CtxPath::ActorId),
        ["actor", "tenant_id" | "tenantId"] => Some(CtxPath::TenantId),
        ["actor", "kind"] => Some(CtxPath::ActorKind),
        ["actor", "session_id" | "sessionId"] => Some(CtxPath::SessionId),
        ["actor", "claims", name] => Some(CtxPath::Claim(name.to_owned())),
        _ => {
            let path = path.join(".");
            d.error(expr, format!("`ctx({path})` is unknown"))
                .suggest(&path, CONTEXT.iter().copied());
            None
        }
    }
}

/// Returns the names of `actor.claims.team`: `actor`, `claims` and `team`.
fn dotted(expr: &Expr) -> Option<Vec<String>> {
    match bare(expr) {
        Expr::Field(field) => {
            let mut path = dotted(&field.base)?;
            let Member::Named(name) = &field.member else {
                return None;
            };
            path.push(name.unraw().to_string());
            Some(path)
        }
        other => options::as_ident(other).map(|ident| vec![ident.unraw().to_string()]),
    }
}

/// `field = source`, a member of `match(..)`, `set(..)`, `fields(..)` and `check(..)`.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) key: Ident,
    /// `None` if the value is missing. The error message for it depends on the field.
    pub(crate) value: Option<Expr>,
}

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.call(Ident::parse_any)?;
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(Self { key, value: None });
        }
        if let Some(error) = compound(&key, input) {
            return Err(error);
        }
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(
                key.span(),
                format!("`{key}` needs a value\nhelp: `{key} = param({key})`"),
            ));
        }
        input.parse::<Token![=]>()?;
        Ok(Self {
            key,
            value: Some(input.parse()?),
        })
    }
}

/// A field in a list of names.
pub(crate) struct Name(pub(crate) Ident);

impl Parse for Name {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        compound(&name, input).map_or(Ok(Self(name)), Err)
    }
}

/// Returns the error for `views += 1`, which no list allows. The operation kind `increment` adds to
/// a field.
fn compound(key: &Ident, input: ParseStream<'_>) -> Option<syn::Error> {
    let fork = input.fork();
    let sign = if fork.parse::<Token![+=]>().is_ok() {
        ""
    } else {
        fork.parse::<Token![-=]>().ok()?;
        "-"
    };
    let by = fork
        .parse::<Expr>()
        .ok()
        .filter(|by| options::as_int(by).is_some())
        .map_or("1".to_owned(), |by| by.to_token_stream().to_string());
    Some(syn::Error::new(
        key.span(),
        addition_error(key, &format!("{sign}{by}")),
    ))
}

/// Returns the field and the amount of `views + 1`; `None` for other expressions.
fn addition(binary: &syn::ExprBinary) -> Option<(&Ident, String)> {
    let sign = match binary.op {
        syn::BinOp::Add(_) => "",
        syn::BinOp::Sub(_) => "-",
        _ => return None,
    };
    options::as_int(&binary.right)?.ok()?;
    Some((
        options::as_ident(bare(&binary.left))?,
        format!("{sign}{}", binary.right.to_token_stream()),
    ))
}

/// Returns the error for an addition in a list of values, with the operation that adds.
fn addition_error(key: &Ident, by: &str) -> String {
    let by = if by == "1" {
        String::new()
    } else {
        format!(", by = {by}")
    };
    format!(
        "a declaration cannot compute a value from a field\nhelp: to add to the field, write an operation of `kind = \
         \"increment\", field = {key}{by}`"
    )
}

/// Reads a list of pairs; a repeated key is reported at its second use.
pub(crate) fn pairs(list: List, of: &str, d: &mut Diagnostics) -> Vec<Pair> {
    let pairs: Vec<Pair> = options::each(list, d);
    for (i, pair) in pairs.iter().enumerate() {
        if pairs[..i]
            .iter()
            .any(|other| other.key.unraw() == pair.key.unraw())
        {
            d.error(
                &pair.key,
                format!("field `{}` repeated in {of}", pair.key.unraw()),
            );
        }
    }
    pairs
}
