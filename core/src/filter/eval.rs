//! The in-memory evaluation of filters. It is the reference for every store.
//!
//! The logic has two values: each condition is true or false, never unknown. In the rules, `f` is
//! the stored value and `v` the operand:
//!
//! | condition | `f` null, `v` not null | `v` null |
//! |---|---|---|
//! | `$eq` | false | true exactly when `f` is null |
//! | `$ne` | true | true exactly when `f` is not null |
//! | `$gt` `$gte` `$lt` `$lte` | false | false |
//! | `$in` | only if the list holds null | a null element matches null |
//! | `$nin` | unless the list holds null | negation of `$in` |
//! | `$contains` `$has` | false | false (input checks refuse it) |
//!
//! This code shares nothing with the code that translates filters for the other stores. So an error
//! in either makes their results differ, and tests can find it.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Filter, Linked, Op, Operand, Source};
use crate::row::Row;
use crate::{Value, ValueRef};

/// Folds case for `$contains` and search: Unicode simple case folding, code point by code point.
///
/// Each code point becomes exactly one code point, so a match never starts or ends inside a
/// character. The consequences:
/// - `ς` and `σ` and `Σ` are equal (final sigma is a form of sigma), as are `ſ` and `s`, the Kelvin
///   sign and `k`;
/// - `ß` equals `ẞ` but not `ss`, since that is a mapping to two code points;
/// - `İ` and `ı` equal only themselves: their mappings to `i` hold in some languages only, and the
///   full lower case of `İ` is two code points.
///
/// No Unicode normalisation happens: a composed `é` does not match `e` with a combining accent.
///
/// ```
/// use linchpin::filter::eval::fold;
/// assert_eq!(fold("ΟΔΟΣ Straße"), "οδοσ straße");
/// ```
pub fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        out.push(if c.is_ascii() {
            c.to_ascii_lowercase()
        } else {
            fold_char(c)
        });
    }
    out
}

/// Whether the folded form of `text` contains `folded`, which is already folded. Most texts are
/// ASCII and need no allocation.
#[doc(hidden)]
pub fn contains_folded(text: &str, folded: &str) -> bool {
    if !text.is_ascii() {
        return fold(text).contains(folded);
    }
    let Some((first, rest)) = folded.as_bytes().split_first() else {
        return true;
    };
    let bytes = text.as_bytes();
    // A folded ASCII letter is a lower-case letter. An ASCII text contains no other characters.
    let begins = |at: usize| {
        bytes[at].to_ascii_lowercase() == *first
            && bytes[at + 1..][..rest.len()].eq_ignore_ascii_case(rest)
    };
    (0..(bytes.len() + 1).saturating_sub(folded.len())).any(begins)
}

// Upper case first, then lower case. This makes forms with the same capital equal (ς and σ, ſ and
// s).
fn fold_char(c: char) -> char {
    match c {
        'ı' => c,
        // The two letters of each arm have the same upper-case form. This form has several code
        // points, so the mapping below ignores it.
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{fb05}' => '\u{fb06}',
        _ => {
            let upper = single(c, c.to_uppercase());
            single(upper, upper.to_lowercase())
        }
    }
}

/// Returns the mapping if it is one code point; else the code point itself.
fn single(c: char, mut mapping: impl Iterator<Item = char>) -> char {
    match (mapping.next(), mapping.next()) {
        (Some(mapped), None) => mapped,
        _ => c,
    }
}

/// Whether a row satisfies a filter.
///
/// `args` fill the filter's argument slots. A plan's filter contains only arguments and fixed
/// values. A condition with another source, or with a slot outside `args`, is false, so that
/// nothing is read or deleted by mistake.
///
/// It cannot read other records: see [`matches_among`].
pub fn matches(filter: &Filter, row: &(impl Row + ?Sized), args: &[Value]) -> bool {
    matches_among(filter, row, args, &NoOthers)
}

/// The other records that conditions can use.
pub trait Others {
    /// Whether a related record satisfies the filter of `linked`. Related records have this value
    /// in the field at position [`Linked::at`].
    fn any(&self, linked: &Linked, value: ValueRef<'_>, args: &[Value]) -> bool;
}

struct NoOthers;

impl Others for NoOthers {
    fn any(&self, _: &Linked, _: ValueRef<'_>, _: &[Value]) -> bool {
        false
    }
}

/// [`matches()`] with access to other records.
pub fn matches_among(
    filter: &Filter,
    row: &(impl Row + ?Sized),
    args: &[Value],
    others: &dyn Others,
) -> bool {
    match filter {
        Filter::All(list) => list.iter().all(|f| matches_among(f, row, args, others)),
        Filter::Any(list) => list.iter().any(|f| matches_among(f, row, args, others)),
        Filter::Linked(linked) => match row.value(linked.field) {
            ValueRef::Null => false,
            value => others.any(linked, value, args),
        },
        Filter::Given(source) => resolve(source, args).is_some_and(|value| value != ValueRef::Null),
        Filter::Cond { field, op, value } => condition(row.value(*field), *op, value, args),
        Filter::Item {
            field,
            key,
            value,
            must_exist,
        } => resolve(value, args)
            .is_some_and(|value| holds_item(row.value(*field), key, value) == *must_exist),
    }
}

/// The order of sorts, cursors and comparisons: null is smallest, texts are ordered by code point,
/// and false is before true.
pub fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    use ValueRef as V;
    match (a, b) {
        (V::Null, V::Null) => Ordering::Equal,
        (V::Bool(a), V::Bool(b)) => a.cmp(&b),
        (V::Int(a), V::Int(b)) => a.cmp(&b),
        (V::Float(a), V::Float(b)) => compare_floats(a, b),
        // Integers are within ±(2^53−1), so these conversions are exact.
        (V::Int(a), V::Float(b)) => compare_floats(a as f64, b),
        (V::Float(a), V::Int(b)) => compare_floats(a, b as f64),
        // The order of UTF-8 bytes is the order of code points.
        (V::Text(a), V::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (V::Date(a), V::Date(b)) => a.cmp(&b),
        (V::Strings(_) | V::Json(_), V::Strings(_) | V::Json(_)) => compare_lists(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    // Values are finite, so the first comparison succeeds; the second makes the order total for any
    // value.
    a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
}

// String arrays are lists or JSON text, depending on the store. JSON text is canonical, so texts
// can be compared.
fn compare_lists(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Strings(a), ValueRef::Strings(b)) => a.cmp(b),
        (ValueRef::Json(a), ValueRef::Json(b)) => a.cmp(b),
        (ValueRef::Strings(a), ValueRef::Json(b)) => json_text(a).as_str().cmp(b),
        (ValueRef::Json(a), ValueRef::Strings(b)) => a.cmp(json_text(b).as_str()),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn json_text(list: &[String]) -> String {
    let mut out = Vec::new();
    crate::json::write_value(ValueRef::Strings(list), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Orders values of different types, so that the order is total. One field never holds different
/// types.
fn rank(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Bool(_) => 1,
        ValueRef::Int(_) | ValueRef::Float(_) => 2,
        ValueRef::Date(_) => 3,
        ValueRef::Text(_) => 4,
        ValueRef::Strings(_) | ValueRef::Json(_) => 5,
    }
}

fn equal(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    compare(a, b).is_eq()
}

fn resolve<'a>(source: &'a Source, args: &'a [Value]) -> Option<ValueRef<'a>> {
    match source {
        Source::Arg { index, .. } => args.get(*index).map(Value::as_ref),
        Source::Value(value) => Some(value.as_ref()),
        Source::Param(_) | Source::Ctx(_) | Source::Now => None,
    }
}

fn condition(stored: ValueRef<'_>, op: Op, operand: &Operand, args: &[Value]) -> bool {
    match op {
        Op::In => member(stored, operand, args) == Some(true),
        Op::Nin => member(stored, operand, args) == Some(false),
        Op::Eq
        | Op::Ne
        | Op::Gt
        | Op::Gte
        | Op::Lt
        | Op::Lte
        | Op::Contains
        | Op::Has
        | Op::Shorter
        | Op::Longer => match operand {
            Operand::One(source) => {
                resolve(source, args).is_some_and(|value| single_condition(stored, op, value))
            }
            Operand::List(_) => false,
        },
    }
}

fn single_condition(stored: ValueRef<'_>, op: Op, value: ValueRef<'_>) -> bool {
    match op {
        Op::Eq => equal(stored, value),
        Op::Ne => !equal(stored, value),
        Op::Shorter => {
            matches!((length(stored), value), (Some(length), ValueRef::Int(than)) if length < than)
        }
        Op::Longer => {
            matches!((length(stored), value), (Some(length), ValueRef::Int(than)) if length > than)
        }
        _ if stored.is_null() || value.is_null() => false,
        Op::Gt => compare(stored, value).is_gt(),
        Op::Gte => compare(stored, value).is_ge(),
        Op::Lt => compare(stored, value).is_lt(),
        Op::Lte => compare(stored, value).is_le(),
        Op::Contains => match (stored, value) {
            (ValueRef::Text(text), ValueRef::Text(part)) => fold(text).contains(&fold(part)),
            _ => false,
        },
        Op::Has => match (stored, value) {
            (ValueRef::Strings(list), ValueRef::Text(item)) => list.iter().any(|i| i == item),
            (ValueRef::Json(text), ValueRef::Text(item)) => {
                serde_json::from_str::<Vec<Cow<'_, str>>>(text)
                    .is_ok_and(|list| list.iter().any(|i| i == item))
            }
            _ => false,
        },
        Op::In | Op::Nin => false,
    }
}

/// Whether a list of items contains an item whose member has this value.
fn holds_item(stored: ValueRef<'_>, key: &str, value: ValueRef<'_>) -> bool {
    let ValueRef::Json(text) = stored else {
        return false;
    };
    let items: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    items.iter().any(|item| {
        item.get(key)
            .is_some_and(|member| equals_json(value, member))
    })
}

/// Returns the number of elements of a list; 0 for null, and `None` if the value is not a list.
fn length(stored: ValueRef<'_>) -> Option<i64> {
    let length = match stored {
        ValueRef::Null => 0,
        ValueRef::Strings(list) => list.len(),
        ValueRef::Json(text) => serde_json::from_str::<Vec<serde::de::IgnoredAny>>(text)
            .ok()?
            .len(),
        _ => return None,
    };
    i64::try_from(length).ok()
}

/// Whether the list contains the stored value; `None` if the list cannot be read.
fn member(stored: ValueRef<'_>, operand: &Operand, args: &[Value]) -> Option<bool> {
    match operand {
        Operand::List(list) => {
            let mut found = false;
            for source in list {
                found |= equal(stored, resolve(source, args)?);
            }
            Some(found)
        }
        Operand::One(source) => match resolve(source, args)? {
            ValueRef::Strings(list) => {
                Some(list.iter().any(|item| equal(stored, ValueRef::Text(item))))
            }
            ValueRef::Json(text) => {
                let list: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
                Some(list.iter().any(|item| equals_json(stored, item)))
            }
            one => Some(equal(stored, one)),
        },
    }
}

/// Compares with an element of a list in JSON form, in which dates are milliseconds.
fn equals_json(stored: ValueRef<'_>, item: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (stored, item) {
        (ValueRef::Null, Json::Null) => true,
        (ValueRef::Bool(a), Json::Bool(b)) => a == *b,
        (ValueRef::Int(a), Json::Number(n)) => n.as_i64() == Some(a),
        (ValueRef::Float(a), Json::Number(n)) => {
            n.as_f64().is_some_and(|b| compare_floats(a, b).is_eq())
        }
        (ValueRef::Date(a), Json::Number(n)) => n.as_i64() == Some(a.millis()),
        (ValueRef::Text(a), Json::String(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
#[path = "eval_tests.rs"]
mod tests;
