//! Constraints of a field: `length`, `range`, `pattern`, `format`, `items`, `unique_items`,
//! `each(..)`, `one_of(..)`.

use darling::FromMeta;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, RangeLimits};

use super::date;
use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt, Rest};

/// The constraints as written, each with its keyword.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleArgs {
    pub(crate) length: Option<Rule<Bounds<u32>>>,
    pub(crate) range: Option<Rule<Bounds<Bound>>>,
    pub(crate) pattern: Option<Rule<LitStr>>,
    pub(crate) format: Option<Rule<LitStr>>,
    pub(crate) items: Option<Rule<Bounds<u32>>>,
    pub(crate) unique_items: Option<Ident>,
    pub(crate) each: Option<Rule<Box<RuleArgs>>>,
    pub(crate) one_of: Option<Rule<Vec<Choice>>>,
}

/// A constraint and the token of its name.
#[derive(Debug, Clone)]
pub(crate) struct Rule<T> {
    pub(crate) key: Ident,
    pub(crate) value: T,
}

/// Inclusive bounds and the expression they come from.
#[derive(Debug, Clone)]
pub(crate) struct Bounds<T> {
    pub(crate) min: Option<T>,
    pub(crate) max: Option<T>,
    pub(crate) at: Expr,
}

/// A bound of `range`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    Int(i64),
    Float(f64),
    /// Milliseconds since the epoch.
    Date(i64),
}

impl Bound {
    /// Returns the bound as a number, to compare literals.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) | Self::Date(n) => n as f64,
            Self::Float(n) => n,
        }
    }
}

/// A member of `one_of`.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    Text(LitStr),
    Int(i64, Box<Expr>),
}

/// The keys of the constraints.
#[derive(Debug, Default, FromMeta)]
pub(crate) struct RuleKeys {
    length: Option<Opt>,
    range: Option<Opt>,
    pattern: Option<Opt>,
    format: Option<Opt>,
    items: Option<Opt>,
    unique_items: Option<Opt>,
    each: Option<Opt>,
    one_of: Option<Opt>,
    #[darling(flatten)]
    pub(crate) rest: Rest,
}

/// The keys of `each(..)`.
#[derive(Debug, Default, FromMeta)]
struct EachKeys {
    length: Option<Opt>,
    pattern: Option<Opt>,
    format: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

impl RuleArgs {
    /// Reads the values of a table.
    pub(crate) fn read(keys: RuleKeys, d: &mut Diagnostics) -> Self {
        Self {
            length: keys
                .length
                .and_then(|opt| bounds(&opt, "length = 1..=200", count, d)),
            range: keys
                .range
                .and_then(|opt| bounds(&opt, "range = 0..=100", bound, d)),
            pattern: keys
                .pattern
                .and_then(|opt| text(&opt, "pattern = \"[a-z]+\"", d)),
            format: keys
                .format
                .and_then(|opt| text(&opt, "format = \"email\"", d)),
            items: keys
                .items
                .and_then(|opt| bounds(&opt, "items = 1..=10", count, d)),
            unique_items: keys
                .unique_items
                .filter(|opt| opt.flag(d))
                .map(|opt| opt.key),
            each: keys.each.and_then(|opt| each(&opt, d)),
            one_of: keys.one_of.and_then(|opt| one_of(&opt, d)),
        }
    }

    /// Returns the name of each constraint, with the name of the runtime's const that lists the
    /// types it applies to.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Ident, &'static str)> {
        let texts = [
            self.length.as_ref().map(|r| &r.key),
            self.pattern.as_ref().map(|r| &r.key),
            self.format.as_ref().map(|r| &r.key),
        ];
        let lists = [
            self.items.as_ref().map(|r| &r.key),
            self.unique_items.as_ref(),
        ];
        let one_of = self.one_of.as_ref().map(|r| match r.value.first() {
            Some(Choice::Int(..)) => (&r.key, "INTEGERS"),
            _ => (&r.key, "TEXTS"),
        });
        let texts = texts.into_iter().flatten().map(|key| (key, "TEXTS"));
        let lists = lists.into_iter().flatten().map(|key| (key, "LISTS"));
        let ranges = self
            .range
            .as_ref()
            .map(|r| match r.value.min.or(r.value.max) {
                Some(Bound::Date(_)) => (&r.key, "DATES"),
                Some(Bound::Float(_)) => (&r.key, "NUMBERS"),
                _ => (&r.key, "NUMERIC"),
            });
        texts
            .chain(lists)
            .chain(ranges)
            .chain(self.each.as_ref().map(|r| (&r.key, "TEXT_LISTS")))
            .chain(one_of)
    }

    /// Whether there is no constraint.
    pub(crate) fn is_empty(&self) -> bool {
        self.length.is_none()
            && self.range.is_none()
            && self.pattern.is_none()
            && self.format.is_none()
            && self.items.is_none()
            && self.unique_items.is_none()
            && self.each.is_none()
            && self.one_of.is_none()
    }
}

fn text(opt: &Opt, example: &str, d: &mut Diagnostics) -> Option<Rule<LitStr>> {
    opt.text(example, d).map(|value| Rule {
        key: opt.key.clone(),
        value,
    })
}

fn each(opt: &Opt, d: &mut Diagnostics) -> Option<Rule<Box<RuleArgs>>> {
    let options = options::read(opt.list("each(length = 1..=64)", d)?, d);
    if options.is_empty() {
        d.error(&opt.key, "`each` has no constraint")
            .help("`each(length = 1..=64)`");
    }
    let EachKeys {
        length,
        pattern,
        format,
        rest,
    } = options::table(options, &[], d);
    rest.refuse("each", &["length", "pattern", "format"], &[], d);
    let rules = RuleArgs::read(
        RuleKeys {
            length,
            pattern,
            format,
            ..RuleKeys::default()
        },
        d,
    );
    Some(Rule {
        key: opt.key.clone(),
        value: Box::new(rules),
    })
}

fn one_of(opt: &Opt, d: &mut Diagnostics) -> Option<Rule<Vec<Choice>>> {
    const EXAMPLE: &str = "one_of(\"a\", \"b\")";
    let mut choices: Vec<Choice> = Vec::new();
    let members = options::each::<Expr>(opt.list(EXAMPLE, d)?, d);
    if opt.is_empty_list() {
        d.error(&opt.key, "`one_of` is empty")
            .help(format!("`{EXAMPLE}`"));
    }
    for member in &members {
        let choice = match (options::as_text(member), options::as_int(member)) {
            (Some(text), _) => Choice::Text(text.clone()),
            (_, Some(Ok(n))) => Choice::Int(n, Box::new(member.clone())),
            _ => {
                d.error(member, "`one_of` must list texts or whole numbers")
                    .help(format!("`{EXAMPLE}`"));
                continue;
            }
        };
        if choices.iter().any(|c| c.same(&choice)) {
            d.error(member, "value repeated in `one_of`")
                .help("keep one of them");
        } else {
            choices.push(choice);
        }
    }
    Some(Rule {
        key: opt.key.clone(),
        value: choices,
    })
}

impl Choice {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.value() == b.value(),
            (Self::Int(a, _), Self::Int(b, _)) => a == b,
            _ => false,
        }
    }
}

/// Reads one bound. The error completes the message "a bound of `length` is ..".
type Read<T> = fn(&Expr) -> Result<T, &'static str>;

fn bounds<T>(
    opt: &Opt,
    example: &str,
    read: Read<T>,
    d: &mut Diagnostics,
) -> Option<Rule<Bounds<T>>> {
    let value = opt.expr(example, d)?;
    let Expr::Range(range) = value else {
        d.error(value, format!("`{}` needs a range", opt.key))
            .help(suggested_range(&opt.key, value, read).unwrap_or_else(|| format!("`{example}`")));
        return None;
    };
    if let (RangeLimits::HalfOpen(limits), Some(_)) = (&range.limits, &range.end) {
        d.error(limits, format!("bounds of `{}` are inclusive", opt.key))
            .help(format!("write `..=`, as in `{example}`"));
        return None;
    }
    if range.start.is_none() && range.end.is_none() {
        d.error(value, format!("`{}` needs at least one bound", opt.key))
            .help(format!("`{example}`"));
        return None;
    }
    // The outer `None` is an error that has been reported; the inner `None` is a missing bound.
    let mut side = |expr: Option<&Expr>| match expr.map(|expr| (expr, read(expr))) {
        None => Some(None),
        Some((_, Ok(bound))) => Some(Some(bound)),
        Some((expr, Err(wanted))) => {
            let error = d.error(expr, format!("a bound of `{}` must be {wanted}", opt.key));
            // `example` contains numbers. If `wanted` already contains an example, `example` is
            // left out.
            match options::suffixed(expr) {
                Some((_, digits)) => error.help(format!("`{digits}`")),
                None if wanted.contains("such as") => {}
                None => error.help(format!("`{example}`")),
            }
            None
        }
    };
    let (min, max) = (side(range.start.as_deref()), side(range.end.as_deref()));
    Some(Rule {
        key: opt.key.clone(),
        value: Bounds {
            min: min?,
            max: max?,
            at: value.clone(),
        },
    })
}

/// Returns the range inside a text, or the range that a single bound probably means.
fn suggested_range<T>(key: &Ident, value: &Expr, read: Read<T>) -> Option<String> {
    if read(value).is_ok() {
        let bound = quote::quote!(#value);
        return Some(match options::as_text(value) {
            Some(_) => format!("`{key} = {bound}..` or `{key} = ..={bound}`"),
            None => format!("`{key} = ..={bound}`, or `{key} = {bound}..={bound}`"),
        });
    }
    let inside: Expr = syn::parse_str(&options::as_text(value)?.value()).ok()?;
    let Expr::Range(range) = &inside else {
        return suggested_range(key, &inside, read);
    };
    let sides = [&range.start, &range.end].map(|side| side.as_deref());
    let fits =
        sides.iter().flatten().all(|side| read(side).is_ok()) && sides.iter().any(Option::is_some);
    let [start, end] =
        sides.map(|side| side.map(|side| quote::quote!(#side).to_string().replace("- ", "-")));
    let end = end.map(|end| format!("={end}")).unwrap_or_default();
    fits.then(|| {
        format!(
            "`{key} = {}..{end}`, without quotes",
            start.unwrap_or_default()
        )
    })
}

const UNSUFFIXED: &str = "a number without a suffix";

fn count(expr: &Expr) -> Result<u32, &'static str> {
    if options::suffixed(expr).is_some() {
        return Err(UNSUFFIXED);
    }
    match options::as_int(expr) {
        Some(Ok(n)) => u32::try_from(n).map_err(|_| "a count from 0 to 4294967295"),
        _ => Err("a whole number as a literal"),
    }
}

fn bound(expr: &Expr) -> Result<Bound, &'static str> {
    const WANTED: &str = "a number, or a text such as \"2020-01-01T00:00:00Z\"";
    if let Some(text) = options::as_text(expr) {
        return date::parse(&text.value())
            .map(Bound::Date)
            .ok_or("a date such as \"2020-01-01T00:00:00Z\"");
    }
    if options::suffixed(expr).is_some() {
        return Err(UNSUFFIXED);
    }
    if let Some(number) = options::as_int(expr) {
        return number
            .map(Bound::Int)
            .map_err(|_| "an integer that fits in 64 bits");
    }
    as_float(expr).map(Bound::Float).ok_or(WANTED)
}

/// Returns the number if the expression is a literal with a fraction or exponent.
pub(crate) fn as_float(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Float(lit),
            ..
        }) => lit.base10_parse().ok().filter(|f: &f64| f.is_finite()),
        Expr::Unary(syn::ExprUnary {
            op: syn::UnOp::Neg(_),
            expr,
            ..
        }) => as_float(expr).map(|f| -f),
        Expr::Group(group) => as_float(&group.expr),
        _ => None,
    }
}
