//! The grammar all our attributes share: `flag, key = expression, key(…)`, separated by commas.
//!
//! Keys may be keywords (`match`), values may be any Rust expression (`length = 1..=200`). A
//! mistake in one option does not hide the others: reading goes on behind the next comma. An option
//! whose value cannot be read is there all the same, so that nobody reports it as missing. darling
//! reads an option and sorts options into tables; what a value has to be, and the words for what is
//! wrong with it, are ours.

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
    /// Nothing: `primary`.
    Flag,
    /// `= expression`.
    Expr(Expr),
    /// `(…)`.
    List(List),
    /// Something that could not be read, which has been reported.
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

/// Options that no key of a table claims, for a member of a table under `#[darling(flatten)]`.
#[derive(Debug, Default)]
pub(crate) struct Rest(pub(crate) Vec<Opt>);

impl Rest {
    /// Reports all of them as [`unknown`].
    pub(crate) fn refuse(&self, of: &str, known: &[&str], later: &[&str], d: &mut Diagnostics) {
        self.0
            .iter()
            .for_each(|opt| unknown(opt, of, known, later, d));
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

/// Reads a list of options; unreadable ones are reported, and left out if they have no name.
pub(crate) fn parse(list: impl Into<List>, d: &mut Diagnostics) -> Vec<Opt> {
    read(list, d)
        .iter()
        .filter_map(|option| d.take(Opt::from_nested_meta(option).map_err(syn::Error::from)))
        .collect()
}

/// Reads a list of options as darling takes them, for a [`table`]; unreadable ones are reported,
/// and left out if they have no name.
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
/// Its last member is a [`Rest`], so that nothing an option says can fail here: values are judged
/// by who reads the table.
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
            given_twice(&opt, d);
        }
        first
    });
    d.take(T::from_list(&options).map_err(syn::Error::from))
        .unwrap_or_default()
}

/// Reads a comma-separated list of `T`; unreadable members are reported and left out.
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
    // Skipping token by token cannot fail.
    if let Err(error) = result {
        d.syntax(&error);
    }
    items
}

impl Opt {
    /// The name of the option.
    pub(crate) fn name(&self) -> String {
        self.key.unraw().to_string()
    }

    /// A bare word; a value is reported, and the word is meant all the same.
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

    /// Whether it is a list with nothing in it.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.value, OptValue::List(list) if list.is_empty())
    }

    /// The expression behind `=`; anything else is reported with `example` as help.
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

    /// The list in parentheses; anything else is reported with `example` as help.
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

    /// A text behind `=`.
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

    /// A path behind `=`.
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

    /// A boolean behind `=`, or `true` for the bare word.
    pub(crate) fn boolean(&self, d: &mut Diagnostics) -> Option<bool> {
        match &self.value {
            OptValue::Flag => Some(true),
            OptValue::Unreadable => None,
            OptValue::Expr(Expr::Lit(ExprLit {
                lit: Lit::Bool(LitBool { value, .. }),
                ..
            })) => Some(*value),
            OptValue::Expr(other) => {
                d.error(other, format!("`{}` is true or false", self.key))
                    .help(format!("`{} = false`", self.key));
                None
            }
            OptValue::List(_) => {
                d.error(&self.key, format!("`{}` is true or false", self.key))
                    .help(format!("`{} = false`", self.key));
                None
            }
        }
    }

    /// A bare name behind `=`.
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

/// The identifier, when the expression is nothing else.
pub(crate) fn as_ident(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => path.path.get_ident(),
        _ => None,
    }
}

/// The text literal, when the expression is nothing else.
pub(crate) fn as_text(expr: &Expr) -> Option<&LitStr> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// The whole number with its sign, when the expression is a literal of one.
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

/// The suffix of a literal of a number, and the number without it: `u8` and `5` of `5u8`.
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

/// Reports an option that does not exist: with the nearest one, or as one that is planned.
pub(crate) fn unknown(opt: &Opt, of: &str, known: &[&str], later: &[&str], d: &mut Diagnostics) {
    let name = opt.name();
    if later.contains(&name.as_str()) {
        d.error(
            &opt.key,
            format!("{of} option `{name}` is not supported yet"),
        );
    } else {
        d.error(&opt.key, format!("unknown {of} option `{name}`"))
            .suggest(&name, known.iter().copied());
    }
}

/// Whether an option is missing: neither given, nor meant by one that is misspelt and reported for
/// that.
pub(crate) fn lacks(options: &[Opt], name: &str, known: &[&str]) -> bool {
    !options.iter().map(Opt::name).any(|given| {
        given == name
            || (!known.contains(&given.as_str())
                && diagnostics::nearest(&given, known.iter().copied()) == Some(name))
    })
}

/// Reports options given twice; `repeatable` ones may be.
pub(crate) fn repeated(options: &[Opt], repeatable: &[&str], d: &mut Diagnostics) {
    let mut seen = std::collections::HashSet::new();
    for opt in options {
        let name = opt.name();
        if !repeatable.contains(&name.as_str()) && !seen.insert(name.clone()) {
            given_twice(opt, d);
        }
    }
}

/// The keys of a table, sorted: what `Debug` shows of an empty one.
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

fn given_twice(opt: &Opt, d: &mut Diagnostics) {
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
    fn a_mistake_hides_no_other_option() {
        let mut d = Diagnostics::new();
        let options = parse(quote!(a = , "b", c d, e), &mut d);
        // Those that have a name are there, so that nobody reports them as missing.
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

    /// Whatever stands in the options, the table takes what it can and the rest is there to be
    /// judged.
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
    fn what_darling_reads_beyond_our_grammar_is_refused() {
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
