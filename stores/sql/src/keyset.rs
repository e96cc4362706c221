//! Keyset pages: the records that follow a position in an order, as ranges of an index.
//!
//! `(a, b) > (x, y)` is one index seek if all keys have the same direction and no nulls. Otherwise
//! the following records are split into several ranges, nearest first. Each range is one seek, and
//! the ranges are disjoint.

use linchpin_core::store::Order;

/// Some of the records after a position. Their first keys equal those of the position, and their
/// next key comes after that of the position in the order.
#[derive(Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The number of leading keys that are equal to those of the position.
    pub equal: usize,
    /// The condition on the next keys.
    pub next: Next,
}

/// The condition on the keys after the equal ones.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This number of keys is compared with the keys of the position in one row comparison. They
    /// have the same direction and no nulls.
    Beyond(usize),
    /// The key is null, the smallest value of all.
    Null,
    /// The key is not null.
    Present,
    /// No condition: all records match.
    All,
}

/// Returns the ranges after a position, nearest first. The list is empty if no record can follow.
///
/// `keys` are the values of the position, `None` for a null. `optional` returns whether a field may
/// be null in these records. `rows` allows row comparisons of several keys.
pub fn stretches(
    order: &[Order],
    keys: &[Option<usize>],
    optional: impl Fn(&Order) -> bool,
    rows: bool,
) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut end = order.len().min(keys.len());
    // If no record has null in a field, no record is equal to a position with null there.
    let unmatched_null = order[..end]
        .iter()
        .zip(keys)
        .position(|(key, value)| value.is_none() && !optional(key));
    while let Some(last) = end.checked_sub(1) {
        let desc = order[last].desc;
        let mut start = last;
        if keys[last].is_none() {
            // Null is the smallest value, so in descending order no value follows it.
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
    all.retain(|stretch| {
        unmatched_null.is_none_or(|unmatched_null| stretch.equal <= unmatched_null)
    });
    all
}

#[cfg(test)]
mod tests {
    use super::{Next, Stretch, stretches};
    use linchpin_core::store::Order;

    /// `order` has a sign per key for its direction, followed by `?` if the key may be null. `keys`
    /// has a digit per value of the position; `0` is null.
    fn ranges(order: &str, keys: &str, rows: bool) -> Vec<Stretch> {
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
    fn a_single_sort_direction_needs_one_seek() {
        assert_eq!(ranges("++", "11", true), [beyond(0, 2)]);
        assert_eq!(ranges("--", "11", false), [beyond(1, 1), beyond(0, 1)]);
        // Nulls of the first key come before all other values (ascending) or after them
        // (descending).
        assert_eq!(ranges("+?+", "11", true), [beyond(0, 2)]);
        assert_eq!(
            ranges("-?-", "11", true),
            [
                beyond(0, 2),
                Stretch {
                    equal: 0,
                    next: Next::Null
                }
            ]
        );
        assert_eq!(
            ranges("+?+", "01", true),
            [
                beyond(1, 1),
                Stretch {
                    equal: 0,
                    next: Next::Present
                }
            ]
        );
        assert_eq!(ranges("-?-", "01", true), [beyond(1, 1)]);
        assert_eq!(ranges("-?", "0", true), []);
        // The position is a null that no record has.
        assert_eq!(
            ranges("++", "01", true),
            [Stretch {
                equal: 0,
                next: Next::All
            }]
        );
        assert_eq!(ranges("--", "01", true), []);
    }

    #[test]
    fn each_change_of_sort_direction_needs_another_seek() {
        assert_eq!(ranges("-+", "11", true), [beyond(1, 1), beyond(0, 1)]);
        assert_eq!(ranges("--+", "111", true), [beyond(2, 1), beyond(0, 2)]);
        assert_eq!(ranges("-++", "111", true), [beyond(1, 2), beyond(0, 1)]);
    }

    #[test]
    fn nulls_after_the_first_key_have_separate_stretches() {
        let null = |equal| Stretch {
            equal,
            next: Next::Null,
        };
        assert_eq!(
            ranges("--?-", "111", true),
            [beyond(1, 2), null(1), beyond(0, 1)]
        );
        assert_eq!(ranges("--?-", "101", true), [beyond(2, 1), beyond(0, 1)]);
        assert_eq!(
            ranges("++?+", "101", true),
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
