//! The kinds of operations, and the facts of each.
//!
//! ```
//! use linchpin_vocabulary::kind::{self, Changes, Records};
//!
//! let batch = kind::named("batch").expect("a kind");
//! assert_eq!((batch.capability, batch.records), ("batch.write", Records::Many));
//! assert_eq!(batch.changes, Changes::Many);
//! assert!(kind::named("bulk").is_none());
//! ```

/// The facts of a kind that do not depend on a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindFacts {
    /// The name of the kind in a declaration: `transition`.
    pub name: &'static str,
    /// The capability that a store must grant: a name of [`crate::store::CAPABILITIES`], or
    /// [`crate::store::FACTORY`].
    pub capability: &'static str,
    /// The capability that suffices for a declaration that only reads.
    pub read_capability: &'static str,
    /// The records that a call works on.
    pub records: Records,
    /// The effect of a call on them.
    pub changes: Changes,
    /// Whether `include` in a `GET` request adds related records to the response.
    pub includes: bool,
    /// Whether each changed record can have its own event: `expose = "records"`.
    pub exposes_records: bool,
    /// The members of a response in addition to the fields of the entity.
    pub answer_members: &'static [&'static str],
    /// Whether a declaration has several methods, each with its own route.
    pub has_methods: bool,
}

/// The records that a permission is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// One record of its entity.
    One,
    /// Any number of records of its entity.
    Many,
    /// Records of other entities.
    Foreign,
    /// The record in the path. If the path contains no record, the permission has no record to
    /// check.
    OfPath,
}

/// The effect of a call on its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// It only reads.
    Nothing,
    /// It creates one record.
    New,
    /// It updates one record, or creates it.
    NewOrOne,
    /// It updates one record.
    One,
    /// It restores one deleted record.
    Restored,
    /// It deletes one record.
    Removed,
    /// It updates or deletes any number of records.
    Many,
    /// A function of the app decides.
    Unknown,
}

impl Changes {
    /// Whether records may be deleted.
    #[must_use]
    pub const fn may_delete(self) -> bool {
        matches!(self, Self::Removed | Self::Many | Self::Unknown)
    }
}

impl KindFacts {
    const fn new(
        name: &'static str,
        capability: &'static str,
        records: Records,
        changes: Changes,
    ) -> Self {
        Self {
            name,
            capability,
            read_capability: capability,
            records,
            changes,
            includes: false,
            exposes_records: false,
            answer_members: &[],
            has_methods: false,
        }
    }
}

/// Finds records by the values of fields.
pub const LOOKUP: KindFacts = KindFacts {
    includes: true,
    ..KindFacts::new(
        "lookup",
        "operation.lookup",
        Records::Many,
        Changes::Nothing,
    )
};
/// Returns whether a record exists.
pub const EXISTS: KindFacts = KindFacts::new(
    "exists",
    "operation.exists",
    Records::Many,
    Changes::Nothing,
);
/// Moves an enum field from one value to another.
pub const TRANSITION: KindFacts = KindFacts::new(
    "transition",
    "atomic.transition",
    Records::One,
    Changes::One,
);
/// Restores a deleted record.
pub const RESTORE: KindFacts = KindFacts::new(
    "restore",
    "atomic.transition",
    Records::One,
    Changes::Restored,
);
/// Adds to a number.
pub const INCREMENT: KindFacts =
    KindFacts::new("increment", "atomic.increment", Records::One, Changes::One);
/// Writes some fields.
pub const FIELD_UPDATE: KindFacts = KindFacts::new(
    "field_update",
    "atomic.field-update",
    Records::One,
    Changes::One,
);
/// Adds an element to a list of texts.
pub const ARRAY_PUSH: KindFacts =
    KindFacts::new("array_push", "atomic.array", Records::One, Changes::One);
/// Removes elements from a list of texts.
pub const ARRAY_PULL: KindFacts =
    KindFacts::new("array_pull", "atomic.array", Records::One, Changes::One);
/// Replaces a list of texts.
pub const ARRAY_SET: KindFacts =
    KindFacts::new("array_set", "atomic.array", Records::One, Changes::One);
/// Updates or deletes the records that a filter matches.
pub const BATCH: KindFacts = KindFacts {
    exposes_records: true,
    ..KindFacts::new("batch", "batch.write", Records::Many, Changes::Many)
};
/// Creates a record, or updates the one that matches.
pub const UPSERT: KindFacts = KindFacts {
    answer_members: &["entity", "created"],
    ..KindFacts::new("upsert", "atomic.upsert", Records::One, Changes::NewOrOne)
};
/// Deletes one of the records that a filter matches, and returns it.
pub const CONSUME: KindFacts =
    KindFacts::new("consume", "atomic.consume", Records::Many, Changes::Removed);
/// Reads and changes the items of a list inside a record.
pub const COLLECTION: KindFacts = KindFacts {
    read_capability: "collection.list",
    has_methods: true,
    ..KindFacts::new(
        "collection",
        "atomic.collection",
        Records::One,
        Changes::One,
    )
};
/// Finds records that contain a text.
pub const SEARCH: KindFacts = KindFacts {
    includes: true,
    ..KindFacts::new(
        "search",
        "operation.search",
        Records::Many,
        Changes::Nothing,
    )
};
/// Counts, sums and compares records.
pub const AGGREGATE: KindFacts = KindFacts::new(
    "aggregate",
    "operation.aggregate",
    Records::Many,
    Changes::Nothing,
);
/// Computes a value from records of one entity and writes it to a record of another.
pub const COMPUTED_AGGREGATE: KindFacts = KindFacts::new(
    "computed_aggregate",
    "computed.write",
    Records::Foreign,
    Changes::One,
);
/// Merges records of several entities.
pub const DERIVE: KindFacts = KindFacts::new(
    "derive",
    "operation.derive",
    Records::Foreign,
    Changes::Nothing,
);
/// Runs a function of the app.
pub const CUSTOM: KindFacts = KindFacts::new(
    "custom",
    crate::store::FACTORY,
    Records::OfPath,
    Changes::Unknown,
);

/// Every kind.
pub const KINDS: [&KindFacts; 18] = [
    &LOOKUP,
    &EXISTS,
    &TRANSITION,
    &RESTORE,
    &INCREMENT,
    &FIELD_UPDATE,
    &ARRAY_PUSH,
    &ARRAY_PULL,
    &ARRAY_SET,
    &BATCH,
    &UPSERT,
    &CONSUME,
    &COLLECTION,
    &SEARCH,
    &AGGREGATE,
    &COMPUTED_AGGREGATE,
    &DERIVE,
    &CUSTOM,
];

/// The kind of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static KindFacts> {
    KINDS.into_iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FACTORY, is_known};

    #[test]
    fn kinds_have_distinct_names_and_known_capabilities() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert!(
                KINDS[..at].iter().all(|other| other.name != kind.name),
                "{} twice",
                kind.name
            );
            for capability in [kind.capability, kind.read_capability] {
                assert!(
                    capability == FACTORY || is_known(capability),
                    "{}: {capability}",
                    kind.name
                );
            }
        }
    }
}
