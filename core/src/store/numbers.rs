//! Sets of row numbers.

use std::fmt;

/// A set of numbers, kept as ranges.
///
/// ```
/// # use linchpin::store::Numbers;
/// let mut numbers: Numbers = [1, 2, 3, 7].into_iter().collect();
/// numbers.add(8, 9);
/// assert_eq!(numbers.to_string(), "1-3,7-9");
/// assert!(numbers.has(2) && !numbers.has(5));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(Vec<(i64, i64)>);

impl Numbers {
    /// The empty set.
    pub const NONE: Self = Self(Vec::new());

    /// Adds the numbers from `from` to `to`, both included.
    pub fn add(&mut self, from: i64, to: i64) {
        // Numbers usually ascend.
        if let Some((_, last)) = self.0.last_mut()
            && *last + 1 == from
        {
            *last = to;
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < from - 1);
        let after = self.0.partition_point(|(start, _)| *start <= to + 1);
        let (mut from, mut to) = (from, to);
        if first < after {
            from = from.min(self.0[first].0);
            to = to.max(self.0[after - 1].1);
        }
        self.0.splice(first..after, [(from, to)]);
    }

    /// Adds a number.
    pub fn insert(&mut self, number: i64) {
        self.add(number, number);
    }

    /// Adds all numbers of another set.
    pub fn extend(&mut self, other: &Self) {
        for (from, to) in &other.0 {
            self.add(*from, *to);
        }
    }

    /// Removes all numbers up to `to`.
    pub fn forget_up_to(&mut self, to: i64) {
        self.0.retain(|(_, end)| *end > to);
        if let Some((from, _)) = self.0.first_mut() {
            *from = (*from).max(to + 1);
        }
    }

    /// Whether the set contains a number.
    pub fn has(&self, number: i64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < number);
        self.0.get(at).is_some_and(|(from, _)| *from <= number)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The greatest number.
    pub fn last(&self) -> Option<i64> {
        self.0.last().map(|(_, end)| *end)
    }

    /// The ranges in ascending order; both ends are included.
    pub fn ranges(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// The ranges of numbers after `after` that are not in the set; the last one has no end.
    pub fn holes(&self, after: i64) -> Vec<(i64, i64)> {
        let mut holes = Vec::with_capacity(self.0.len() + 1);
        let mut next = after + 1;
        for (from, to) in &self.0 {
            if *from > next {
                holes.push((next, from - 1));
            }
            next = next.max(to + 1);
        }
        holes.push((next, i64::MAX));
        holes
    }

    /// Reads the form of [`Display`](fmt::Display); `None` if the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = Self::NONE;
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then(|| numbers.add(from, to))?;
        }
        Some(numbers)
    }
}

impl FromIterator<i64> for Numbers {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        let mut set = Self::NONE;
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

/// `1-3,7`.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (from, to)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            if from == to {
                write!(f, "{comma}{from}")?;
            } else {
                write!(f, "{comma}{from}-{to}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Numbers;

    fn set(text: &str) -> Numbers {
        Numbers::parse(text).expect("a set")
    }

    #[test]
    fn numbers_are_joined_to_ranges() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[5], "5"),
            (&[1, 2, 3, 7, 9, 8], "1-3,7-9"),
            (&[4, 1, 3], "1,3-4"),
            (&[2, 2, 1, 3], "1-3"),
        ] {
            let numbers: Numbers = numbers.iter().copied().collect();
            assert_eq!(numbers.to_string(), text);
            assert_eq!(set(text), numbers);
        }
        assert_eq!(Numbers::parse("3-1"), None);
        assert_eq!(Numbers::parse("x"), None);
    }

    #[test]
    fn a_set_built_from_ranges_equals_the_set_of_their_numbers() {
        // All pairs of ranges up to 12, in both orders.
        for a in 0..12 {
            for b in a..12 {
                for c in 0..12 {
                    for d in c..12 {
                        let mut ranges = set("5");
                        ranges.add(a, b);
                        ranges.add(c, d);
                        let numbers: BTreeSet<i64> = (a..=b).chain(c..=d).chain([5]).collect();
                        assert_eq!(ranges, numbers.iter().copied().collect());
                        for n in -1..14 {
                            assert_eq!(ranges.has(n), numbers.contains(&n), "{ranges} {n}");
                        }
                        assert_eq!(ranges.last(), numbers.last().copied());
                        let mut left = ranges.clone();
                        left.forget_up_to(b);
                        let kept = numbers.iter().copied().filter(|n| *n > b);
                        assert_eq!(left, kept.collect());
                    }
                }
            }
        }
    }

    #[test]
    fn gaps_are_the_missing_number_ranges() {
        assert_eq!(set("").holes(0), [(1, i64::MAX)]);
        assert_eq!(set("1-3,7").holes(0), [(4, 6), (8, i64::MAX)]);
        assert_eq!(set("3-4").holes(1), [(2, 2), (5, i64::MAX)]);
        assert_eq!(set("3-4").holes(9), [(10, i64::MAX)]);
    }
}
