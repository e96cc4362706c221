//! Sets of an entity's fields.

/// A set of fields of an entity, by position. An entity has fewer than 256 fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet([u64; 4]);

impl FieldSet {
    /// The empty set.
    pub const NONE: Self = Self([0; 4]);
    /// Every field that an entity can have.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Adds a field.
    #[must_use]
    pub const fn with(mut self, field: usize) -> Self {
        if field < 256 {
            self.0[field / 64] |= 1 << (field % 64);
        }
        self
    }

    /// Whether the set contains a field.
    pub const fn has(self, field: usize) -> bool {
        field < 256 && self.0[field / 64] & (1 << (field % 64)) != 0
    }

    /// Returns the union.
    #[must_use]
    pub const fn or(mut self, other: Self) -> Self {
        let mut word = 0;
        while word < 4 {
            self.0[word] |= other.0[word];
            word += 1;
        }
        self
    }

    /// Whether the two sets have a field in common.
    pub const fn meets(self, other: Self) -> bool {
        let mut word = 0;
        while word < 4 {
            if self.0[word] & other.0[word] != 0 {
                return true;
            }
            word += 1;
        }
        false
    }
}

impl FromIterator<usize> for FieldSet {
    fn from_iter<I: IntoIterator<Item = usize>>(fields: I) -> Self {
        fields.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::FieldSet;

    #[test]
    fn a_set_contains_the_inserted_fields() {
        let set: FieldSet = [0, 63, 64, 199].into_iter().collect();
        for field in 0..256 {
            assert_eq!(set.has(field), [0, 63, 64, 199].contains(&field), "{field}");
            assert!(FieldSet::ALL.has(field) && !FieldSet::NONE.has(field));
        }
        assert!(!FieldSet::ALL.has(256));
        assert!(set.meets(FieldSet::NONE.with(199)) && set.meets(FieldSet::ALL));
        assert!(set.or(FieldSet::NONE.with(198)).has(198) && set.or(FieldSet::NONE) == set);
        assert!(!set.meets(FieldSet::NONE.with(198)) && !set.meets(FieldSet::NONE));
    }
}
