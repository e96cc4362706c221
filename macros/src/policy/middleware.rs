//! `middleware`: paths of functions, and names that plugins register.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprPath, LitStr};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};

const EXAMPLE: &str =
    "`middleware = [audit]` for a function, `middleware = [\"audit\"]` for a registered name";

/// A function around a route.
#[derive(Debug, Clone)]
pub(crate) enum Middleware {
    Function(ExprPath),
    Named(LitStr),
}

/// Reads a list of functions and names.
pub(crate) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Vec<Middleware>> {
    let Expr::Array(array) = opt.expr("middleware = [audit]", d)? else {
        d.error(&opt.key, "`middleware` needs a list").help(EXAMPLE);
        return None;
    };
    if array.elems.is_empty() {
        d.error(array, "`middleware` is empty").help(EXAMPLE);
        return None;
    }
    let mut list: Vec<Middleware> = Vec::new();
    for expr in &array.elems {
        let middleware = match (options::as_text(expr), expr) {
            (Some(text), _) if text.value().trim().is_empty() => {
                d.error(text, "a middleware has no name").help(EXAMPLE);
                continue;
            }
            (Some(text), _) => Middleware::Named(text.clone()),
            (None, Expr::Path(path)) => Middleware::Function(path.clone()),
            _ => {
                d.error(
                    expr,
                    "a middleware must be the path of a function, or a text",
                )
                .help(EXAMPLE);
                continue;
            }
        };
        if list
            .iter()
            .any(|other| other.display_name() == middleware.display_name())
        {
            d.error(
                expr,
                format!(
                    "middleware `{}` repeated",
                    middleware.display_name().trim_matches('"')
                ),
            )
            .help("keep one of them");
        } else {
            list.push(middleware);
        }
    }
    Some(list)
}

impl Middleware {
    fn display_name(&self) -> String {
        match self {
            Self::Function(path) => path.to_token_stream().to_string().replace(' ', ""),
            Self::Named(name) => name.to_token_stream().to_string(),
        }
    }
}

/// Returns a call on the descriptor; `None` in builds without a server that could run it.
pub(super) fn tokens(list: &[Middleware]) -> Option<TokenStream> {
    let list = self::list(list);
    crate::SERVER.then(|| quote!(.middleware(const { #list })))
}

/// Returns a slice of descriptors.
pub(crate) fn list(list: &[Middleware]) -> TokenStream {
    let each = list.iter().map(|middleware| match middleware {
        Middleware::Function(path) => {
            let name = middleware.display_name();
            let run = quote_spanned!(path.span()=> |call, next| __lp::boxed(#path(call, next)));
            quote!(__lp::MiddlewareDesc::Function(#name, const { &((#run) as __lp::MiddlewareFn) }))
        }
        Middleware::Named(name) => quote!(__lp::MiddlewareDesc::Named(#name)),
    });
    quote!(&[#(#each),*])
}
