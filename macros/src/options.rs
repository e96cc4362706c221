//! The common grammar of all attributes of Linchpin: `flag, key = expression, key(…)`, separated by
//! commas.
//!
//! Keys may be keywords (`match`), and values may be any Rust expression (`length = 1..=200`). A
//! mistake in one option does not hide the others: reading continues after the next comma. An
//! option whose value cannot be read still counts as present, so that it is not reported as
//! missing. darling reads options and sorts them into tables; this module checks values and writes
//! the messages.

use darling::FromMeta;
use darling::ast::NestedMeta;
use syn::ext::IdentExt;
use syn::parse::Parse;
use syn::parse::discouraged::Speculative;
use syn::{Expr, ExprLit, Ident, Lit, LitBool, LitInt, LitStr, Meta, MetaNameValue, Path, Token};

use crate::diagnostics::{self, Diagnostics};
use crate::list::List;
use crate::readable::{Readable, skip};

/// One option as written.
#[derive(Debug, Clone)]
pub(crate) struct Opt {
    pub(crate) key: Ident,
    pub(crate) value: OptValue,
}

/// The value after the key.
#[derive(Debug, Clone)]
pub(crate) enum OptValue {
    /// No value: `primary`.
    Flag,
    /// `= expression`.
    Expr(Expr),
    /// `(…)`.
    List(List),
    /// A value that could not be read, which has been reported.
    Unreadable,
}

impl FromMeta for Opt {
    fn from_meta(meta: &Meta) -> darling::Result<Self> {
        let value = match meta {
            Meta::Path(_) => OptValue::Flag,
            Meta::NameValue(MetaNameValue {
                value: Expr::Verbatim(nothing),
                ..
            }) if nothing.is_empty() => OptValue::Unreadable,
            Meta::NameValue(pair) => OptValue::Expr(pair.value.clone()),
            Meta::List(list) => OptValue::List(List::of(list)),
        };
        match meta.path().get_ident() {
            Some(key) => Ok(Self {
                key: key.clone(),
                value,
            }),
            None => Err(darling::Error::custom(NO_NAME).with_span(meta.path())),
        }
    }
}

/// The options for which a table has no member. A table has a member of this type with
/// `#[darling(flatten)]`.
#[derive(Debug, Default)]
pub(crate) struct Rest(pub(crate) Vec<Opt>);

impl Rest {
    /// Reports all of them with [`unknown`].
    pub(crate) fn refuse(&self, of: &str, known: &[&str], planned: &[&str], d: &mut Diagnostics) {
        self.0
            .iter()
            .for_each(|opt| unknown(opt, of, known, planned, d));
    }
}

impl FromMeta for Rest {
    fn from_list(items: &[NestedMeta]) -> darling::Result<Self> {
        items
            .iter()
            .map(Opt::from_nested_meta)
            .collect::<darling::Result<_>>()
            .map(Self)
    }
}

pub(crate) const NO_NAME: &str = "expected the name of an option";

/// Reads a list of options. Unreadable ones are reported, and left out if they have no name.
pub(crate) fn parse(list: impl Into<List>, d: &mut Diagnostics) -> Vec<Opt> {
    read(list, d)
        .iter()
        .filter_map(|option| d.take(Opt::from_nested_meta(option).map_err(syn::Error::from)))
        .collect()
}

/// Reads the options of an attribute that has `crate` only, and returns the path of the runtime
/// crate.
pub(crate) fn only_crate(
    tokens: proc_macro2::TokenStream,
    of: &str,
    d: &mut Diagnostics,
) -> proc_macro2::TokenStream {
    let options = parse(tokens, d);
    repeated(&options, &[], d);
    let mut krate = quote::quote!(::linchpin);
    for opt in &options {
        if opt.name() != "crate" {
            unknown(opt, of, &["crate"], &[], d);
        } else if let Some(path) = opt.path("crate = ::framework::linchpin", d) {
            krate = quote::quote!(#path);
        }
    }
    krate
}

/// Reads a list of options in darling's form, for a [`table`]. Unreadable ones are reported, and
/// left out if they have no name.
pub(crate) fn read(list: impl Into<List>, d: &mut Diagnostics) -> Vec<NestedMeta> {
    let options = each::<Readable>(list, d)
        .into_iter()
        .map(|Readable { option, error }| {
            if let Some(error) = error {
                d.syntax(&error);
            }
            option
        });
    options.collect()
}

/// Sorts options into a table: a struct with one member per key, `Option<Opt>`, or `Vec<Opt>` for
/// the `repeatable` ones.
///
/// The last member of the table is a [`Rest`], so that no option is an error for darling. The code
/// that uses the table checks the values.
pub(crate) fn table<T: FromMeta + Default>(
    mut options: Vec<NestedMeta>,
    repeatable: &[&str],
    d: &mut Diagnostics,
) -> T {
    let mut seen = std::collections::HashSet::new();
    options.retain(|option| {
        let Ok(opt) = Opt::from_nested_meta(option) else {
            return true;
        };
        let first = repeatable.contains(&opt.name().as_str()) || seen.insert(opt.name());
        if !first {
            report_repeated(&opt, d);
        }
        first
    });
    d.take(T::from_list(&options).map_err(syn::Error::from))
        .unwrap_or_default()
}

/// Reads a comma-separated list of `T`. Unreadable members are reported and left out.
pub(crate) fn each<T: Parse>(list: impl Into<List>, d: &mut Diagnostics) -> Vec<T> {
    let mut items = Vec::new();
    let result = list.into().read(|input| {
        while !input.is_empty() {
            let fork = input.fork();
            match fork.parse::<T>() {
                Ok(item) if fork.is_empty() || fork.peek(Token![,]) => {
                    input.advance_to(&fork);
                    items.push(item);
                }
                Ok(_) => d.syntax(&fork.error("expected `,`")),
                Err(error) => d.syntax(&error),
            }
            skip(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    });
    // In practice there is no error: skipping token by token cannot fail.
    if let Err(error) = result {
        d.syntax(&error);
    }
    items
}

impl Opt {
    /// Returns the name of the option.
    pub(crate) fn name(&self) -> String {
        self.key.unraw().to_string()
    }

    /// Reads an option without a value. A value is reported, and the option still counts as
    /// present.
    pub(crate) fn flag(&self, d: &mut Diagnostics) -> bool {
        match &self.value {
            OptValue::Flag | OptValue::Unreadable => {}
            OptValue::Expr(value) => d
                .error(value, format!("`{}` takes no value", self.key))
                .help(format!("`{}`", self.key)),
            OptValue::List(_) => d
                .error(&self.key, format!("`{}` takes no value", self.key))
                .help(format!("`{}`", self.key)),
        }
        true
    }

    /// Whether its value could not be read, which has been reported.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(&self.value, OptValue::Unreadable)
    }

    /// Whether it has a list in parentheses.
    pub(crate) fn is_list(&self) -> bool {
        matches!(&self.value, OptValue::List(_))
    }

    /// Whether it is an empty list.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.value, OptValue::List(list) if list.is_empty())
    }

    /// Returns the expression after `=`; other forms are reported with `example` as help.
    pub(crate) fn expr(&self, example: &str, d: &mut Diagnostics) -> Option<&Expr> {
        match &self.value {
            OptValue::Expr(value) => return Some(value),
            OptValue::Unreadable => {}
            _ => d
                .error(&self.key, format!("`{}` needs a value", self.key))
                .help(format!("`{example}`")),
        }
        None
    }

    /// Returns the list in parentheses; other forms are reported with `example` as help.
    pub(crate) fn list(&self, example: &str, d: &mut Diagnostics) -> Option<List> {
        match &self.value {
            OptValue::List(list) => Some(list.clone()),
            OptValue::Unreadable => None,
            OptValue::Flag => {
                d.error(&self.key, format!("`{}` needs a list", self.key))
                    .help(format!("`{example}`"));
                None
            }
            OptValue::Expr(value) => {
                d.error(
                    value,
                    format!("`{}` takes its list in parentheses", self.key),
                )
                .help(format!("`{example}`"));
                None
            }
        }
    }

    /// Returns a text after `=`.
    pub(crate) fn text(&self, example: &str, d: &mut Diagnostics) -> Option<LitStr> {
        match self.expr(example, d)? {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Some(text.clone()),
            other => {
                d.error(other, format!("`{}` needs a text", self.key))
                    .help(format!("`{example}`"));
                None
            }
        }
    }

    /// Returns the text after `=`, or the list of texts in brackets. An empty list is reported.
    pub(crate) fn texts(&self, example: &str, d: &mut Diagnostics) -> Vec<LitStr> {
        let Some(value) = self.expr(example, d) else {
            return Vec::new();
        };
        let parts = match value {
            Expr::Array(array) => array.elems.iter().collect(),
            one => vec![one],
        };
        if parts.is_empty() {
            d.error(value, format!("`{}` is empty", self.key))
                .help(format!("`{example}`"));
        }
        let mut texts = Vec::new();
        for part in parts {
            if let Some(text) = as_text(part) {
                texts.push(text.clone());
            } else {
                d.error(part, format!("`{}` needs a text", self.key))
                    .help(format!("`{example}`"));
            }
        }
        texts
    }

    /// Returns a path after `=`.
    pub(crate) fn path(&self, example: &str, d: &mut Diagnostics) -> Option<Path> {
        match self.expr(example, d)? {
            Expr::Path(path) if path.qself.is_none() => Some(path.path.clone()),
            other => {
                d.error(other, format!("`{}` needs a path", self.key))
                    .help(format!("`{example}`"));
                None
            }
        }
    }

    /// Returns a boolean after `=`, or `true` for the bare word.
    pub(crate) fn boolean(&self, d: &mut Diagnostics) -> Option<bool> {
        match &self.value {
            OptValue::Flag => Some(true),
            OptValue::Unreadable => None,
            OptValue::Expr(Expr::Lit(ExprLit {
                lit: Lit::Bool(LitBool { value, .. }),
                ..
            })) => Some(*value),
            OptValue::Expr(other) => {
                d.error(other, format!("`{}` must be true or false", self.key))
                    .help(format!("`{} = false`", self.key));
                None
            }
            OptValue::List(_) => {
                d.error(&self.key, format!("`{}` must be true or false", self.key))
                    .help(format!("`{} = false`", self.key));
                None
            }
        }
    }

    /// Returns a bare name after `=`.
    pub(crate) fn ident(&self, example: &str, d: &mut Diagnostics) -> Option<Ident> {
        let value = self.expr(example, d)?;
        let ident = as_ident(value).cloned();
        if ident.is_none() {
            d.error(value, format!("`{}` needs a bare name", self.key))
                .help(format!("`{example}`"));
        }
        ident
    }
}

/// Returns the identifier, if the expression is only that.
pub(crate) fn as_ident(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => path.path.get_ident(),
        _ => None,
    }
}

/// Returns the text literal, if the expression is only that.
pub(crate) fn as_text(expr: &Expr) -> Option<&LitStr> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// Returns the integer with its sign, if the expression is an integer literal.
pub(crate) fn as_int(expr: &Expr) -> Option<syn::Result<i64>> {
    let parse = |lit: &LitInt, sign: &str| {
        let suffix = lit.suffix();
        if !matches!(suffix, "" | "i64" | "u32" | "u64" | "i32") {
            return Err(syn::Error::new(
                lit.span(),
                format!("number with suffix `{suffix}`"),
            ));
        }
        format!("{sign}{}", lit.base10_digits())
            .parse()
            .map_err(|_| syn::Error::new(lit.span(), "number out of range"))
    };
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Int(lit), ..
        }) => Some(parse(lit, "")),
        Expr::Unary(syn::ExprUnary {
            op: syn::UnOp::Neg(_),
            expr,
            ..
        }) => match &**expr {
            Expr::Lit(ExprLit {
                lit: Lit::Int(lit), ..
            }) => Some(parse(lit, "-")),
            _ => None,
        },
        Expr::Group(group) => as_int(&group.expr),
        _ => None,
    }
}

/// Returns the suffix of a number literal, and the number without it: `u8` and `5` of `5u8`.
pub(crate) fn suffixed(expr: &Expr) -> Option<(String, String)> {
    let found = |suffix: &str, digits: &str| {
        (!suffix.is_empty()).then(|| (suffix.to_owned(), digits.to_owned()))
    };
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Int(lit), ..
        }) => found(lit.suffix(), lit.base10_digits()),
        Expr::Lit(ExprLit {
            lit: Lit::Float(lit),
            ..
        }) => found(lit.suffix(), lit.base10_digits()),
        Expr::Unary(syn::ExprUnary {
            op: syn::UnOp::Neg(_),
            expr,
            ..
        }) => suffixed(expr).map(|(suffix, digits)| (suffix, format!("-{digits}"))),
        Expr::Group(group) => suffixed(&group.expr),
        _ => None,
    }
}

/// Reports an unknown option: with the nearest name, or as a planned option. In the message, `of`
/// is the word before "option", such as `entity`.
pub(crate) fn unknown(opt: &Opt, of: &str, known: &[&str], planned: &[&str], d: &mut Diagnostics) {
    let name = opt.name();
    if planned.contains(&name.as_str()) {
        d.error(
            &opt.key,
            format!("{of} option `{name}` is not supported yet"),
        );
    } else {
        d.error(&opt.key, format!("unknown {of} option `{name}`"))
            .suggest(&name, known.iter().copied());
    }
}

/// Whether an option is missing. An unknown option with a similar name, which has been reported,
/// counts as this option.
pub(crate) fn lacks(options: &[Opt], name: &str, known: &[&str]) -> bool {
    !options.iter().map(Opt::name).any(|given| {
        given == name
            || (!known.contains(&given.as_str())
                && diagnostics::nearest(&given, known.iter().copied()) == Some(name))
    })
}

/// Reports repeated options, except `repeatable` ones.
pub(crate) fn repeated(options: &[Opt], repeatable: &[&str], d: &mut Diagnostics) {
    let mut seen = std::collections::HashSet::new();
    for opt in options {
        let name = opt.name();
        if !repeatable.contains(&name.as_str()) && !seen.insert(name.clone()) {
            report_repeated(opt, d);
        }
    }
}

/// Returns the keys of a table, sorted, from the `Debug` output of an empty one.
#[cfg(test)]
pub(crate) fn keys_of<T: Default + std::fmt::Debug>() -> Vec<String> {
    let text = format!("{:#?}", T::default());
    let keys = text.lines().filter_map(|line| {
        line.trim()
            .strip_suffix(": None,")
            .or(line.trim().strip_suffix(": [],"))
    });
    let mut keys: Vec<String> = keys.map(|key| key.replace("krate", "crate")).collect();
    keys.sort_unstable();
    keys
}

fn report_repeated(opt: &Opt, d: &mut Diagnostics) {
    d.error(&opt.key, format!("option `{}` is given twice", opt.name()))
        .help("keep one of them");
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn reads_flags_expressions_and_lists() {
        let mut d = Diagnostics::new();
        let options = parse(
            quote!(primary, length = 1..=200, range = ..5, items = 3.., match(id = param(id)), auth = none,),
            &mut d,
        );
        assert_eq!(d.into_texts(), [""; 0]);
        let names: Vec<String> = options.iter().map(Opt::name).collect();
        assert_eq!(
            names,
            ["primary", "length", "range", "items", "match", "auth"]
        );
        assert!(matches!(options[1].value, OptValue::Expr(Expr::Range(_))));
        assert!(matches!(options[4].value, OptValue::List(_)));
    }

    #[test]
    fn options_after_a_syntax_error_are_still_read() {
        let mut d = Diagnostics::new();
        let options = parse(quote!(a = , "b", c d, e), &mut d);
        // Options with a name count as present, so that they are not reported as missing.
        assert_eq!(
            options.iter().map(Opt::name).collect::<Vec<_>>(),
            ["a", "c", "e"]
        );
        assert!(
            options[0].is_unreadable()
                && options[0].expr("a = 1", &mut d).is_none()
                && options[1].list("c(x)", &mut d).is_none()
        );
        assert_eq!(d.into_texts().len(), 3);
    }

    #[derive(Debug, Default, FromMeta)]
    struct Keys {
        name: Option<Opt>,
        #[darling(multiple)]
        index: Vec<Opt>,
        #[darling(rename = "match")]
        matching: Option<Opt>,
        #[darling(flatten)]
        rest: Rest,
    }

    /// The members of a table get the options with their keys. `Rest` gets all others, for the
    /// checks.
    #[test]
    fn a_table_sorts_options_and_keeps_the_rest() {
        let mut d = Diagnostics::new();
        let tokens = quote!(name = 1..=2, nmae, index(a), name(b), match(x = y), index = [c], other = 5, other);
        let keys: Keys = table(read(tokens, &mut d), &["index"], &mut d);
        assert!(
            keys.name.is_some_and(|opt| opt.expr("", &mut d).is_some()) && keys.matching.is_some()
        );
        assert_eq!(keys.index.len(), 2);
        assert_eq!(
            keys.rest.0.iter().map(Opt::name).collect::<Vec<_>>(),
            ["nmae", "other"]
        );
        let twice = |name: &str| {
            format!("linchpin: option `{name}` is given twice\nhelp: keep one of them")
        };
        assert_eq!(d.into_texts(), [twice("name"), twice("other")]);
    }

    #[test]
    fn options_outside_of_the_grammar_are_refused() {
        let mut d = Diagnostics::new();
        let options = parse(
            quote!(a::b, ::c = 1, true, "text" = 2, d[1], e { x }, f = pub(crate), #[g] h, i = #[j] k, self),
            &mut d,
        );
        let read = options.iter().filter(|opt| !opt.is_unreadable());
        assert_eq!(read.map(Opt::name).collect::<Vec<_>>(), ["self"]);
        assert_eq!(d.into_texts().len(), 9);
    }

    #[test]
    fn whole_numbers_keep_their_sign() {
        assert_eq!(
            as_int(&syn::parse_quote!(-12)).and_then(Result::ok),
            Some(-12)
        );
        assert_eq!(
            as_int(&syn::parse_quote!(1_000)).and_then(Result::ok),
            Some(1000)
        );
        assert!(as_int(&syn::parse_quote!(99999999999999999999)).is_some_and(|r| r.is_err()));
        assert!(as_int(&syn::parse_quote!(x)).is_none());
    }
}
