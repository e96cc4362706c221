//! Divides the values of a field into ranges, and evaluates conditions in each range.

use std::cmp::Ordering;
use std::collections::HashSet;

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, ExprLit, Lit};

use super::MAX_INTEGER;
use super::filter::Op;
use super::literal::number;
use super::scope::{Cond, Scope, Value};
use super::source::bare;
use crate::entity::{Bound, Choice, Field, Kind, admits, parse_date};
use crate::options;

/// The value of an expression, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known {
    Number(f64),
    Text(String),
    Bool(bool),
    /// The name of a variant.
    Variant(String),
    /// An unknown value with this text.
    Unknown(String),
}

/// The variants of an enum that occur in conditions, each once.
#[derive(Default)]
pub(super) struct Variants {
    pub(super) exprs: Vec<Expr>,
    /// Whether one of them may be a const. A const can have the same value as a variant or another
    /// const.
    pub(super) doubtful: bool,
}

/// Returns the value of an expression for a field.
pub(super) fn known(field: &Field, expr: &Expr) -> Known {
    let expr = bare(expr);
    let unknown = || Known::Unknown(expr.to_token_stream().to_string());
    if let Expr::Lit(ExprLit {
        lit: Lit::Bool(lit),
        ..
    }) = expr
    {
        return Known::Bool(lit.value);
    }
    if let Some(text) = options::as_text(expr).map(syn::LitStr::value) {
        return match (field.kind, parse_date(&text)) {
            (Kind::Date, Some(millis)) => Known::Number(millis as f64),
            // The type may be an alias of text or of a date.
            (Kind::Other, Some(_)) => unknown(),
            _ => Known::Text(text),
        };
    }
    let integer = options::as_int(expr).and_then(Result::ok).map(|n| n as f64);
    if let Some(number) = integer.or_else(|| number(expr)) {
        return Known::Number(number);
    }
    match expr {
        Expr::Path(path) if field.kind == Kind::Other => match variant(field, &path.path) {
            Some((name, _)) => Known::Variant(name),
            None => unknown(),
        },
        _ => unknown(),
    }
}

/// Returns the variant that a path names, and whether it may also be a const. Consts are in upper
/// case.
fn variant(field: &Field, path: &syn::Path) -> Option<(String, bool)> {
    let name = path.segments.last()?.ident.unraw().to_string();
    let enum_name = path
        .segments
        .iter()
        .rev()
        .nth(1)
        .map(|segment| segment.ident.unraw().to_string());
    let upper_case = !name.contains(|c: char| c.is_lowercase());
    let is_field_type = matches!(&field.inner, syn::Type::Path(ty) if ty.path.segments.last().map(|s| s.ident.unraw().to_string()) == enum_name);
    let fits = name.starts_with(|c: char| c.is_uppercase())
        && (!upper_case || (enum_name.is_some() && is_field_type));
    fits.then_some((name, upper_case))
}

/// Whether two values of a field are equal, in any notation.
pub(crate) fn same(field: &Field, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Literal(_, a), Value::Literal(_, b)) => known(field, a) == known(field, b),
        (Value::Now, Value::Now) | (Value::Null, Value::Null) => true,
        _ => false,
    }
}

/// Returns the variants that conditions name.
pub(super) fn variants<'c>(field: &Field, conds: impl Iterator<Item = &'c Cond>) -> Variants {
    let mut names: Vec<String> = Vec::new();
    let mut found = Variants::default();
    for value in conds.flat_map(|cond| &cond.values) {
        if let Value::Literal(_, expr) = value
            && field.kind == Kind::Other
            && let Expr::Path(path) = bare(expr)
            && let Some((name, doubtful)) = variant(field, &path.path)
            && !names.contains(&name)
        {
            names.push(name);
            found.exprs.push(bare(expr).clone());
            found.doubtful |= doubtful;
        }
    }
    found.doubtful &= found.exprs.len() > 1;
    found
}

/// An unknown value that conditions compare a field with.
struct Symbol {
    name: String,
    relations: Vec<Relation>,
}

/// The relation of the field's value to a symbol.
#[derive(Clone, Copy, PartialEq)]
enum Relation {
    Is(Ordering),
    /// The symbol is null.
    Null,
    /// The condition has this result for every value, because the symbol is missing in the call.
    Fixed(bool),
}

/// The values in conditions ("marks") in ascending order, and the ranges between them.
struct Cells {
    marks: Vec<Known>,
    /// The possible positions of a value: odd ones are marks, even ones are between marks.
    /// `None` is null.
    positions: Vec<Option<usize>>,
    symbols: Vec<Symbol>,
    /// The names of the conditions that do not depend on the position of the value.
    free: Vec<String>,
}

/// The maximum number of combinations to try for a field.
const MAX_COMBINATIONS: usize = 20_000;

/// Returns the possible combinations of truth values for the conditions on a field. `None` if there
/// are too many, or if the types of the values differ, which is reported elsewhere. If `closed` is
/// true, the enum of the field is assumed to have only the variants that the conditions name.
pub(super) fn combinations(
    scope: &Scope<'_>,
    field: usize,
    conds: &[&Cond],
    closed: bool,
) -> Option<Vec<Vec<bool>>> {
    let cells = Cells::of(scope, field, conds, closed)?;
    let radix: Vec<usize> = std::iter::once(cells.positions.len())
        .chain(cells.symbols.iter().map(|symbol| symbol.relations.len()))
        .chain(cells.free.iter().map(|_| 2))
        .collect();
    let count = radix
        .iter()
        .try_fold(1usize, |all, one| all.checked_mul(*one))
        .filter(|count| *count <= MAX_COMBINATIONS)?;
    let mut seen = HashSet::new();
    for mut number in 0..count {
        let digits: Vec<usize> = radix
            .iter()
            .map(|radix| {
                let digit = number % radix;
                number /= radix;
                digit
            })
            .collect();
        let combination = Combination {
            cells: &cells,
            scope,
            digits: &digits,
        };
        seen.insert(
            conds
                .iter()
                .enumerate()
                .map(|(i, cond)| combination.holds(i, cond))
                .collect::<Vec<bool>>(),
        );
    }
    Some(seen.into_iter().collect())
}

impl Cells {
    fn of(scope: &Scope<'_>, field: usize, conds: &[&Cond], closed: bool) -> Option<Self> {
        let field = scope.at(field);
        let mut cells = Self {
            marks: Vec::new(),
            positions: Vec::new(),
            symbols: Vec::new(),
            free: Vec::new(),
        };
        for (i, cond) in conds.iter().enumerate() {
            for value in &cond.values {
                cells.add_value(scope, field, (i, cond), value);
            }
        }
        cells.add_bounds(field);
        cells.sort()?;
        let last = 2 * cells.marks.len();
        let positions: Vec<Option<usize>> = (0..=last)
            .filter(|at| cells.admits(field, *at, closed))
            .map(Some)
            .collect();
        // Constraints that no value satisfies are reported elsewhere.
        cells.positions = if positions.is_empty() {
            (0..=last).map(Some).collect()
        } else {
            positions
        };
        if field.optional {
            cells.positions.push(None);
        }
        Some(cells)
    }

    fn add_value(
        &mut self,
        scope: &Scope<'_>,
        field: &Field,
        (i, cond): (usize, &Cond),
        value: &Value,
    ) {
        if let Some(free) = free_name(scope, field, (i, cond), value) {
            if !self.free.contains(&free) {
                self.free.push(free);
            }
            return;
        }
        let mut relations = vec![
            Relation::Is(Ordering::Less),
            Relation::Is(Ordering::Equal),
            Relation::Is(Ordering::Greater),
        ];
        let name = match value {
            Value::Null => return,
            Value::Literal(_, expr) => match known(field, expr) {
                Known::Unknown(text) => text,
                mark => {
                    if !self.marks.contains(&mark) {
                        self.marks.push(mark);
                    }
                    return;
                }
            },
            Value::Param(at) => {
                let param = scope.params.get(*at);
                if param.nullable {
                    relations.push(Relation::Null);
                }
                if !param.required && param.default.is_none() {
                    relations.extend([Relation::Fixed(true), Relation::Fixed(false)]);
                }
                symbol_name(value)
            }
            Value::Ctx(_) => {
                // A comparison with a missing context value is false, whatever its operator.
                relations.extend([Relation::Null, Relation::Fixed(false)]);
                symbol_name(value)
            }
            Value::Now => symbol_name(value),
        };
        if !self.symbols.iter().any(|known| known.name == name) {
            self.symbols.push(Symbol { name, relations });
        }
    }

    /// Adds the marks of the field's type and constraints.
    fn add_bounds(&mut self, field: &Field) {
        let rules = &field.options.rules;
        let mut add = |mark: Known| {
            if !self.marks.contains(&mark) {
                self.marks.push(mark);
            }
        };
        if field.kind == Kind::Boolean {
            add(Known::Bool(false));
            add(Known::Bool(true));
        }
        if let Some(range) = &rules.range {
            for bound in [range.value.min, range.value.max].into_iter().flatten() {
                add(Known::Number(Bound::as_f64(bound)));
            }
        }
        if field.kind == Kind::Integer {
            add(Known::Number(MAX_INTEGER as f64));
            add(Known::Number(-(MAX_INTEGER as f64)));
        }
        for choice in rules.one_of.iter().flat_map(|rule| &rule.value) {
            add(match choice {
                Choice::Text(text) => Known::Text(text.value()),
                Choice::Int(n, _) => Known::Number(*n as f64),
            });
        }
    }

    /// Sorts the marks; `None` if they have different types. If one is a boolean, marks of other
    /// types are removed, and both booleans are marks.
    fn sort(&mut self) -> Option<()> {
        if self.marks.iter().any(|mark| matches!(mark, Known::Bool(_))) {
            self.marks.retain(|mark| matches!(mark, Known::Bool(_)));
            for value in [false, true] {
                if !self.marks.contains(&Known::Bool(value)) {
                    self.marks.push(Known::Bool(value));
                }
            }
        }
        let one_kind = self
            .marks
            .windows(2)
            .all(|pair| std::mem::discriminant(&pair[0]) == std::mem::discriminant(&pair[1]));
        if !one_kind {
            return None;
        }
        self.marks.sort_by(order);
        Some(())
    }

    /// Whether the field allows a value at a position.
    fn admits(&self, field: &Field, at: usize, closed: bool) -> bool {
        let rules = &field.options.rules;
        let in_range = |n: f64| {
            let range = rules.range.as_ref().map(|rule| &rule.value);
            range.is_none_or(|range| {
                range.min.is_none_or(|min| n >= min.as_f64())
                    && range.max.is_none_or(|max| n <= max.as_f64())
            })
        };
        let is_choice = |mark: &Known| {
            let choice = |choice: &Choice| match choice {
                Choice::Text(text) => Known::Text(text.value()) == *mark,
                Choice::Int(n, _) => Known::Number(*n as f64) == *mark,
            };
            rules
                .one_of
                .as_ref()
                .is_none_or(|rule| rule.value.iter().any(choice))
        };
        if at % 2 == 1 {
            let mark = &self.marks[at / 2];
            return match mark {
                Known::Number(n) => in_range(*n) && is_choice(mark),
                Known::Text(text) => admits(field, text),
                _ => true,
            };
        }
        let (low, high) = (
            (at > 0).then(|| &self.marks[at / 2 - 1]),
            self.marks.get(at / 2),
        );
        if rules.one_of.is_some() && (low.is_some() || high.is_some()) {
            return false;
        }
        match (low, high) {
            (Some(Known::Bool(_)), _) | (_, Some(Known::Bool(_))) => false,
            // One position stands for all other variants.
            (low, Some(Known::Variant(_))) => low.is_none() && !closed,
            (Some(Known::Variant(_)), None) => false,
            (None, Some(Known::Text(text))) if text.is_empty() => false,
            (Some(Known::Text(_)), _) | (_, Some(Known::Text(_))) => rules
                .length
                .as_ref()
                .is_none_or(|length| length.value.max != Some(0)),
            (low, high) => {
                let number = |mark: Option<&Known>, none: f64| {
                    if let Some(Known::Number(n)) = mark {
                        *n
                    } else {
                        none
                    }
                };
                let (low, high) = (number(low, f64::NEG_INFINITY), number(high, f64::INFINITY));
                let is_integral = matches!(field.kind, Kind::Integer | Kind::Date);
                let in_integer_range = field.kind != Kind::Integer
                    || (low >= -(MAX_INTEGER as f64) && high <= MAX_INTEGER as f64);
                let between = match (low.is_finite(), high.is_finite()) {
                    (true, true) => low / 2.0 + high / 2.0,
                    (true, false) => low + low.abs().max(1.0),
                    (false, true) => high - high.abs().max(1.0),
                    (false, false) => 0.0,
                };
                // A bound of the range is a mark. So the values between two marks are either all
                // inside the range or all outside.
                (!is_integral || low.floor() + 1.0 < high)
                    && in_integer_range
                    && (low == f64::NEG_INFINITY && high == f64::INFINITY || in_range(between))
            }
        }
    }
}

/// One combination: the position of the value, its relation to each symbol, and the free
/// conditions.
struct Combination<'w, 's> {
    cells: &'w Cells,
    scope: &'w Scope<'s>,
    /// First an index into `positions`, then for each symbol an index into its relations, then 0 or
    /// 1 for each free condition.
    digits: &'w [usize],
}

impl Combination<'_, '_> {
    fn position(&self) -> Option<usize> {
        self.cells.positions[self.digits[0]]
    }

    fn relation(&self, name: &str) -> Option<Relation> {
        let at = self
            .cells
            .symbols
            .iter()
            .position(|symbol| symbol.name == name)?;
        Some(self.cells.symbols[at].relations[self.digits[1 + at]])
    }

    /// Returns whether a free condition is true in this combination.
    fn free_truth(&self, name: &str) -> Option<bool> {
        let at = self.cells.free.iter().position(|free| free == name)?;
        Some(self.digits[1 + self.cells.symbols.len() + at] == 1)
    }

    /// Whether a condition is true in this combination. `i` is its number.
    fn holds(&self, i: usize, cond: &Cond) -> bool {
        let field = self.scope.at(cond.field);
        for value in &cond.values {
            if let Some(Relation::Fixed(truth)) = self.symbol(field, value) {
                return truth;
            }
        }
        let any = || {
            cond.values
                .iter()
                .any(|value| self.equals(field, (i, cond), value))
        };
        match cond.op {
            Op::Eq | Op::In => any(),
            Op::Ne | Op::Nin => !any(),
            Op::Contains | Op::Has => cond
                .values
                .iter()
                .any(|value| self.contains(field, (i, cond), value)),
            Op::Gt => self.order(field, cond) == Some(Ordering::Greater),
            Op::Gte => matches!(
                self.order(field, cond),
                Some(Ordering::Greater | Ordering::Equal)
            ),
            Op::Lt => self.order(field, cond) == Some(Ordering::Less),
            Op::Lte => matches!(
                self.order(field, cond),
                Some(Ordering::Less | Ordering::Equal)
            ),
        }
    }

    fn symbol(&self, field: &Field, value: &Value) -> Option<Relation> {
        match value {
            Value::Literal(_, expr) => match known(field, expr) {
                Known::Unknown(text) => self.relation(&text),
                _ => None,
            },
            Value::Null => None,
            value => self.relation(&symbol_name(value)),
        }
    }

    /// Whether the value of the field equals a value of the condition.
    fn equals(&self, field: &Field, cond: (usize, &Cond), value: &Value) -> bool {
        if let Some(free) = free_name(self.scope, field, cond, value) {
            return self.free_truth(&free).unwrap_or_default();
        }
        match (self.position(), self.symbol(field, value)) {
            (None, Some(relation)) => relation == Relation::Null,
            (Some(_), Some(relation)) => relation == Relation::Is(Ordering::Equal),
            (position, None) => match value {
                Value::Null => position.is_none(),
                value => position.is_some_and(|at| {
                    self.mark(field, value)
                        .is_some_and(|mark| 2 * mark + 1 == at)
                }),
            },
        }
    }

    fn order(&self, field: &Field, cond: &Cond) -> Option<Ordering> {
        let (at, value) = (self.position()?, cond.values.first()?);
        match self.symbol(field, value) {
            Some(Relation::Is(order)) => Some(order),
            Some(_) => None,
            None => Some(at.cmp(&(2 * self.mark(field, value)? + 1))),
        }
    }

    /// Whether the value of the field contains a value of the condition.
    fn contains(&self, field: &Field, cond: (usize, &Cond), value: &Value) -> bool {
        let Some(at) = self.position() else {
            return false;
        };
        // If both texts are known, their content decides.
        if let (Value::Literal(_, expr), true) = (value, at % 2 == 1)
            && let (Known::Text(part), Known::Text(whole)) =
                (known(field, expr), &self.cells.marks[at / 2])
            && part.is_ascii()
            && whole.is_ascii()
        {
            return whole
                .to_ascii_lowercase()
                .contains(&part.to_ascii_lowercase());
        }
        free_name(self.scope, field, cond, value)
            .and_then(|free| self.free_truth(&free))
            .unwrap_or_default()
    }

    fn mark(&self, field: &Field, value: &Value) -> Option<usize> {
        let Value::Literal(_, expr) = value else {
            return None;
        };
        let known = known(field, expr);
        self.cells.marks.iter().position(|mark| *mark == known)
    }
}

/// Returns the name of a condition that does not depend on the position of the value: `contains`,
/// `has`, and lists in a parameter.
fn free_name(
    scope: &Scope<'_>,
    field: &Field,
    (i, cond): (usize, &Cond),
    value: &Value,
) -> Option<String> {
    let param = if let Value::Param(at) = value {
        Some(scope.params.get(*at))
    } else {
        None
    };
    let kind = match cond.op {
        Op::Contains | Op::Has => "contains",
        Op::In | Op::Nin if param.is_some_and(|param| param.list) => "in",
        _ => return None,
    };
    let what = match value {
        Value::Literal(_, expr) => format!("{:?}", known(field, expr)),
        value => symbol_name(value),
    };
    // If a call omits an optional parameter, all conditions with this parameter are dropped, even
    // conditions that exclude each other, such as `one_of` and `none_of`. So each condition gets a
    // name of its own.
    let may_be_dropped = param.is_some_and(|param| !param.required && param.default.is_none());
    Some(if may_be_dropped {
        format!("{kind} {what} {i}")
    } else {
        format!("{kind} {what}")
    })
}

/// Returns the name of the symbol for a value that is not known.
fn symbol_name(value: &Value) -> String {
    match value {
        Value::Param(at) => format!("param {at}"),
        Value::Ctx(path) => format!("ctx {}", path.to_token_stream()),
        Value::Now => "now".to_owned(),
        Value::Null => "null".to_owned(),
        Value::Literal(_, expr) => expr.to_token_stream().to_string(),
    }
}

/// Compares marks of one kind. Variants have no order and keep their sequence.
fn order(a: &Known, b: &Known) -> Ordering {
    match (a, b) {
        (Known::Number(a), Known::Number(b)) => a.total_cmp(b),
        (Known::Text(a), Known::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Known::Bool(a), Known::Bool(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}
