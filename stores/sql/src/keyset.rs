//! Keyset pages: the records that follow a position in an order, as ranges of an index.
//!
//! `(a, b) > (x, y)` is one index seek if all keys have the same direction and no nulls. Otherwise
//! the following records are split into several ranges, nearest first. Each range is one seek, and
//! the ranges are disjoint.

use linchpin_core::store::Order;

/// Some of the records after a position: their first keys equal the keys of the position, and the
/// next key follows it in the order.
#[derive(Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The number of leading keys that equal the position's.
    pub equal: usize,
    /// The condition on the next keys.
    pub next: Next,
}

/// The condition on the keys after the equal ones.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This number of keys, all in one direction and without nulls, follow the position's keys in a
    /// row comparison.
    Beyond(usize),
    /// The key is null, the smallest value of all.
    Null,
    /// The key is not null.
    Present,
    /// No condition: all records match.
    All,
}

/// The ranges after a position, nearest first; none if nothing can follow.
///
/// `keys` are the position's values, `None` for a null. `optional` says which fields may be null in
/// these records, `rows` whether row comparisons of several keys are available.
pub fn stretches(
    order: &[Order],
    keys: &[Option<usize>],
    optional: impl Fn(&Order) -> bool,
    rows: bool,
) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut end = order.len().min(keys.len());
    // If no record has a null, none equals the position's null.
    let alone = order[..end]
        .iter()
        .zip(keys)
        .position(|(key, value)| value.is_none() && !optional(key));
    while let Some(last) = end.checked_sub(1) {
        let desc = order[last].desc;
        let mut start = last;
        if keys[last].is_none() {
            // Nothing is smaller than null.
            if !desc {
                all.push(Stretch {
                    equal: last,
                    next: if optional(&order[last]) {
                        Next::Present
                    } else {
                        Next::All
                    },
                });
            }
        } else {
            let joins =
                |i: usize| keys[i].is_some() && order[i].desc == desc && !optional(&order[i + 1]);
            while rows && start > 0 && joins(start - 1) {
                start -= 1;
            }
            all.push(Stretch {
                equal: start,
                next: Next::Beyond(end - start),
            });
            if desc && optional(&order[start]) {
                all.push(Stretch {
                    equal: start,
                    next: Next::Null,
                });
            }
        }
        end = start;
    }
    all.retain(|stretch| alone.is_none_or(|alone| stretch.equal <= alone));
    all
}

#[cfg(test)]
mod tests {
    use super::{Next, Stretch, stretches};
    use linchpin_core::store::Order;

    /// Directions as signs, with the suffix `?` for keys that may be null; the position's values,
    /// `0` for a null.
    fn shape(order: &str, keys: &str, rows: bool) -> Vec<Stretch> {
        let mut fields = Vec::new();
        let mut optional = Vec::new();
        for c in order.chars() {
            match c {
                '?' => optional.push(fields.len() - 1),
                c => fields.push(Order {
                    field: fields.len(),
                    desc: c == '-',
                }),
            }
        }
        let keys: Vec<Option<usize>> = keys
            .chars()
            .enumerate()
            .map(|(i, c)| (c != '0').then_some(i))
            .collect();
        stretches(&fields, &keys, |o| optional.contains(&o.field), rows)
    }

    fn beyond(equal: usize, keys: usize) -> Stretch {
        Stretch {
            equal,
            next: Next::Beyond(keys),
        }
    }

    #[test]
    fn one_direction_is_one_seek() {
        assert_eq!(shape("++", "11", true), [beyond(0, 2)]);
        assert_eq!(shape("--", "11", false), [beyond(1, 1), beyond(0, 1)]);
        // Nulls of the first key alone come before all other values, or after them.
        assert_eq!(shape("+?+", "11", true), [beyond(0, 2)]);
        assert_eq!(
            shape("-?-", "11", true),
            [
                beyond(0, 2),
                Stretch {
                    equal: 0,
                    next: Next::Null
                }
            ]
        );
        assert_eq!(
            shape("+?+", "01", true),
            [
                beyond(1, 1),
                Stretch {
                    equal: 0,
                    next: Next::Present
                }
            ]
        );
        assert_eq!(shape("-?-", "01", true), [beyond(1, 1)]);
        assert_eq!(shape("-?", "0", true), []);
        // A position at a null that no record has.
        assert_eq!(
            shape("++", "01", true),
            [Stretch {
                equal: 0,
                next: Next::All
            }]
        );
        assert_eq!(shape("--", "01", true), []);
    }

    #[test]
    fn each_turn_begins_another_seek() {
        assert_eq!(shape("-+", "11", true), [beyond(1, 1), beyond(0, 1)]);
        assert_eq!(shape("--+", "111", true), [beyond(2, 1), beyond(0, 2)]);
        assert_eq!(shape("-++", "111", true), [beyond(1, 2), beyond(0, 1)]);
    }

    #[test]
    fn nulls_behind_the_first_key_have_stretches_of_their_own() {
        let null = |equal| Stretch {
            equal,
            next: Next::Null,
        };
        assert_eq!(
            shape("--?-", "111", true),
            [beyond(1, 2), null(1), beyond(0, 1)]
        );
        assert_eq!(shape("--?-", "101", true), [beyond(2, 1), beyond(0, 1)]);
        assert_eq!(
            shape("++?+", "101", true),
            [
                beyond(2, 1),
                Stretch {
                    equal: 1,
                    next: Next::Present
                },
                beyond(0, 1)
            ]
        );
    }
}
