//! `guards(..)`: named guards, some with an argument.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Expr, Ident, LitStr};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};

const EXAMPLE: &str = "guards(require_mfa, require_step_up(300))";

/// A guard by the name that a plugin registers.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    name: String,
    argument: Option<Argument>,
}

#[derive(Debug, Clone)]
enum Argument {
    Int(i64),
    Text(LitStr),
}

/// Reads a list of guards.
pub(super) fn read(opt: &Opt, d: &mut Diagnostics) -> Option<Vec<Guard>> {
    let list = opt.list(EXAMPLE, d)?;
    if list.is_empty() {
        d.error(&opt.key, "`guards` is empty")
            .help(format!("`{EXAMPLE}`"));
        return None;
    }
    let mut guards: Vec<Guard> = Vec::new();
    for expr in &options::each::<Expr>(list, d) {
        let Some((ident, argument)) = guard(expr, d) else {
            continue;
        };
        let name = ident.unraw().to_string();
        if guards.iter().any(|guard| guard.name == name) {
            d.error(ident, format!("guard `{name}` repeated"))
                .help("keep one of them");
        } else {
            guards.push(Guard { name, argument });
        }
    }
    Some(guards)
}

/// `name` or `name(argument)`.
fn guard<'a>(expr: &'a Expr, d: &mut Diagnostics) -> Option<(&'a Ident, Option<Argument>)> {
    if let Some(ident) = options::as_ident(expr) {
        return Some((ident, None));
    }
    let Expr::Call(call) = expr else {
        d.error(expr, "a guard must be a name without quotes or `::`")
            .help(format!("`{EXAMPLE}`"));
        return None;
    };
    let Some(ident) = options::as_ident(&call.func) else {
        d.error(&call.func, "a guard must be a name without quotes or `::`")
            .help(format!("`{EXAMPLE}`"));
        return None;
    };
    let argument = match call.args.first() {
        Some(argument) if call.args.len() == 1 => argument,
        first => {
            let problem = format!("guard `{ident}` needs exactly one argument in its parentheses");
            match first {
                Some(_) => d.error(&call.args, problem),
                None => d.error(ident, problem),
            }
            .help(format!("`{ident}` or `{ident}(300)`"));
            return None;
        }
    };
    let argument = match (options::as_text(argument), options::as_int(argument)) {
        (Some(text), _) => Argument::Text(text.clone()),
        (None, Some(Ok(number))) => Argument::Int(number),
        _ => {
            d.error(
                argument,
                "the argument of a guard must be a whole number or a text",
            )
            .help(format!("`{ident}(300)`"));
            return None;
        }
    };
    Some((ident, Some(argument)))
}

impl ToTokens for Guard {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        // Literals, so that rustc promotes a reference to them to a static.
        let argument = match &self.argument {
            None => quote!(__lp::None),
            Some(Argument::Int(number)) => {
                let number = Literal::i64_unsuffixed(*number);
                quote!(__lp::Some(__lp::GuardArg::Int(#number)))
            }
            Some(Argument::Text(text)) => quote!(__lp::Some(__lp::GuardArg::Text(#text))),
        };
        let name = &self.name;
        tokens.extend(quote!(__lp::GuardDesc { name: #name, argument: #argument }));
    }
}
