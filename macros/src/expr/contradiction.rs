//! Filters that can never match: `views > 5 && views < 3`, one field equal to two literals.

use std::collections::HashMap;

use super::filter::Op;
use super::scope::{Cond, Resolved, Scope, Value};

/// Reports conditions which no record can satisfy together, at the later one.
pub(super) fn check(scope: &mut Scope<'_>, filter: &Resolved) {
    match filter {
        Resolved::Cond(_) => {}
        Resolved::Any(list) => list.iter().for_each(|f| check(scope, f)),
        Resolved::All(list) => {
            // Nested conjunctions have been flattened by the parser.
            let mut known: HashMap<usize, Known<'_>> = HashMap::new();
            for member in list {
                match member {
                    Resolved::Cond(cond) => {
                        if !known.entry(cond.field).or_default().add(cond) {
                            let text = format!("the filter can never match: conditions on `{}` exclude each other", cond.ident);
                            scope.d.error(&cond.ident, text);
                        }
                    }
                    other => check(scope, other),
                }
            }
        }
    }
}

/// What is known of one field.
#[derive(Default)]
struct Known<'a> {
    equal: Option<&'a str>,
    different: Vec<&'a str>,
    null: Option<bool>,
    /// Value and whether it is excluded itself.
    low: Option<(f64, bool)>,
    high: Option<(f64, bool)>,
}

impl<'a> Known<'a> {
    /// Whether the conditions so far can hold together.
    fn add(&mut self, cond: &'a Cond) -> bool {
        let [value] = &cond.values[..] else { return true };
        let (text, null) = match value {
            Value::Literal(_, text) => (text.as_str(), false),
            Value::Null => ("None", true),
            _ => return true,
        };
        match cond.op {
            Op::Eq if null => self.note_null(true),
            Op::Ne if null => self.note_null(false),
            Op::Eq => {
                let conflicting = self.equal.is_some_and(|other| other != text) || self.different.contains(&text);
                self.equal = Some(text);
                !conflicting && self.note_null(false) && self.ranges(Op::Gte, text) && self.ranges(Op::Lte, text)
            }
            Op::Ne => {
                self.different.push(text);
                self.equal != Some(text)
            }
            Op::Gt | Op::Gte | Op::Lt | Op::Lte => self.note_null(false) && self.ranges(cond.op, text),
            _ => true,
        }
    }

    fn note_null(&mut self, null: bool) -> bool {
        let fits = self.null.is_none_or(|known| known == null);
        self.null = Some(null);
        fits
    }

    fn ranges(&mut self, op: Op, text: &str) -> bool {
        let Ok(value) = text.replace([' ', '_'], "").trim_end_matches("i64").trim_end_matches("f64").parse::<f64>() else { return true };
        let open = matches!(op, Op::Gt | Op::Lt);
        if matches!(op, Op::Gt | Op::Gte) {
            if self.low.is_none_or(|(low, _)| value >= low) {
                self.low = Some((value, open));
            }
        } else if self.high.is_none_or(|(high, _)| value <= high) {
            self.high = Some((value, open));
        }
        match (self.low, self.high) {
            (Some((low, low_open)), Some((high, high_open))) => low < high || (low <= high && !low_open && !high_open),
            _ => true,
        }
    }
}
