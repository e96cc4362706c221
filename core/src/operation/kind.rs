//! What a kind of operation is: its declared options, its answer, its plan.

use crate::entity::{EntityDesc, FieldSet, Paging, SortDesc};
use crate::filter::{FilterSpec, SourceSpec};

use super::spec::{AssignSpec, Subject};

/// A field, the value that is always written to it, and whether that is one element of its list.
pub type Fixed = (usize, fn() -> crate::Value, bool);

/// One kind of operation: its declared options and the facts that follow from them.
pub trait Kind: std::fmt::Debug + Send + Sync + 'static {
    /// Its options, by kind.
    fn options(&'static self) -> Options;

    /// `transition` and so on.
    fn name(&self) -> &'static str;

    /// What the store must be able to do: a name of the capability matrix.
    fn capability(&self) -> &'static str;

    /// Whether it brings what it needs of a store by itself, so that the store need not have the
    /// capability.
    fn brings(&self, store: &str) -> bool {
        let _ = store;
        false
    }

    /// What a successful call answers, for OpenAPI and the HTTP layer.
    fn returns(&self) -> Answer;

    /// Whether it changes the one record that its path names, so that `If-Match` can guard it.
    fn by_id(&self) -> bool {
        matches!(self.returns(), Answer::Record | Answer::Boolean)
    }

    /// What it works on, as far as a permission is concerned.
    fn subject(&self) -> Subject {
        if self.by_id() {
            Subject::Record
        } else {
            Subject::Records
        }
    }

    /// Whether it runs a function of the user's, so that a permission has to be judged before.
    fn runs_code(&self) -> bool {
        self.name() == "custom"
    }

    /// What the records it works on must equal, parameters that are left out apart; empty when it
    /// goes by the id alone.
    fn matches(&self) -> &'static [AssignSpec] {
        &[]
    }

    /// What it writes to a field.
    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        let _ = field;
        None
    }

    /// Values of its declaration that it writes beside what [`Kind::writes`] says.
    fn fixed(&self) -> Vec<Fixed> {
        Vec::new()
    }

    /// Which fields of its own entity's records it may change; all of them where it makes or
    /// removes records, and where code of the user decides. What every change writes (on-update
    /// dates, version, expiry) is not among them.
    fn touches(&self, on: &EntityDesc) -> FieldSet {
        (0..on.fields.len())
            .filter(|field| self.writes(*field).is_some())
            .collect()
    }

    /// Whether it only reads: then an anonymous caller may see records without a tenant, where the
    /// entity says so.
    fn reads(&self) -> bool {
        false
    }

    /// Whether it works on deleted records, and on no others.
    fn deleted(&self) -> bool {
        false
    }

    /// What a call can be refused with beyond what every route can: its own refusals, for OpenAPI.
    fn errors(&self) -> &'static [crate::Code] {
        &[]
    }

    /// The most statements that a call sends, repetitions apart: a write that another call
    /// overtakes is sent again. `None` where code of the user decides.
    fn statements(&self, on: &EntityDesc) -> Option<usize> {
        let _ = on;
        // When nothing was changed, a second one asks why.
        Some(if self.by_id() && !self.reads() { 2 } else { 1 })
    }

    /// What it lays down for a list of items, for all that write the list.
    fn bounds(&self) -> Option<super::ItemBounds> {
        None
    }

    /// How its pages are asked for, if it answers any.
    fn paging(&self) -> Paging {
        Paging::Limit
    }

    /// The orders that a call chooses from by name; the first holds without a name.
    fn sorts(&self) -> &'static [NamedSort] {
        &[]
    }

    /// Whether the search provider of its entity answers it, where there is one.
    fn uses_provider(&self) -> bool {
        false
    }

    /// What it is made of, for a kind that merges other entities' records.
    fn derived(&self) -> Option<&super::Derive> {
        None
    }

    /// Whose records it answers, when they are not those of its own entity.
    fn answers(&self) -> Option<&'static EntityDesc> {
        None
    }

    /// Texts of SQL that its functions run, to be judged before anybody calls.
    fn texts(&self) -> &'static [&'static str] {
        &[]
    }

    /// The form of its answer, for a kind whose answer is declared by a type.
    fn shape(&self) -> Option<super::Shape> {
        None
    }

    /// Which move it is, for a kind that moves a field between states.
    fn transition(&self) -> Option<&super::Transition> {
        None
    }

    /// What is computed, for a kind that answers numbers.
    fn aggregate(&self) -> Option<&super::Aggregate> {
        None
    }

    /// The declared filter, for introspection.
    fn filter(&self) -> Option<&FilterSpec> {
        None
    }
}

/// The declared options of an operation, by kind: what the server plans an executor from.
#[derive(Clone, Copy, Debug)]
pub enum Options {
    /// Those of `aggregate`.
    Aggregate(&'static super::Aggregate),
    /// Those of `array_write`.
    ArrayWrite(&'static super::ArrayWrite),
    /// Those of `batch`.
    Batch(&'static super::Batch),
    /// Those of `collection`.
    Collection(&'static super::Collection),
    /// Those of `computed_aggregate`.
    ComputedAggregate(&'static super::ComputedAggregate),
    /// Those of `consume`.
    Consume(&'static super::Consume),
    /// Those of `custom`.
    Custom(&'static super::Custom),
    /// Those of `derive`.
    Derive(&'static super::Derive),
    /// Those of `exists`.
    Exists(&'static super::Exists),
    /// Those of `field_update`.
    FieldUpdate(&'static super::FieldUpdate),
    /// Those of `increment`.
    Increment(&'static super::Increment),
    /// Those of `lookup`.
    Lookup(&'static super::Lookup),
    /// Those of `restore`.
    Restore(&'static super::Restore),
    /// Those of `search`.
    Search(&'static super::Search),
    /// Those of `transition`.
    Transition(&'static super::Transition),
    /// Those of `upsert`.
    Upsert(&'static super::Upsert),
}

/// An order that calls choose by its name.
#[derive(Debug)]
pub struct NamedSort {
    /// As calls write it.
    pub name: &'static str,
    /// Its fields; the primary key breaks ties in the direction of the last.
    pub keys: &'static [SortDesc],
}

#[doc(hidden)]
impl NamedSort {
    /// An order of this name.
    pub const fn new(name: &'static str, keys: &'static [SortDesc]) -> Self {
        Self { name, keys }
    }

    /// What is told to a call that names another.
    #[doc(hidden)]
    pub fn one_of(sorts: &[Self]) -> String {
        format!(
            "must be one of {}",
            sorts
                .iter()
                .map(|sort| sort.name)
                .collect::<Vec<_>>()
                .join(", ")
        )
    }
}

/// The shape of a successful answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The record; never null.
    Record,
    /// The record or null.
    RecordOrNull,
    /// A page of records.
    Page,
    /// A bare array of records, at most `limit` of them.
    List,
    /// A bare array of records.
    Records,
    /// A value of a declared type.
    Value,
    /// An array of what other entities hold.
    Derived,
    /// An object of numbers.
    Numbers,
    /// An array of such objects, one per group.
    Groups,
    /// The bare value `true` or `false`.
    Boolean,
    /// `{ "exists": boolean }`; HEAD answers 200 or 404.
    Exists,
    /// A bare number.
    Count,
    /// The items of a list.
    Items {
        /// Position of the list's field.
        field: usize,
    },
    /// One item of a list.
    Item {
        /// Position of the list's field.
        field: usize,
        /// Whether it is new: 201.
        created: bool,
    },
    /// 204.
    Nothing,
    /// The record, 201 when it is new; within `{ "entity", "created" }` when wrapped.
    Upserted {
        /// Whether the answer is an object around the record.
        wrapped: bool,
    },
}

#[cfg(test)]
mod tests {
    use crate::operation::{Custom, OpSpec, ParamSpec, Shape, Subject};

    /// A permission over a function is never judged by what the function might do with records.
    #[test]
    fn functions_work_on_the_record_of_their_path_or_on_none() {
        static ID: [ParamSpec; 1] = [crate::__private::in_id("id", 0)];
        static KINDS: [Custom; 5] = [
            Custom::new(Shape::Nothing),
            Custom::new(Shape::Record),
            Custom::new(Shape::RecordOrNull),
            Custom::new(Shape::Records),
            Custom::new(Shape::Record).by_id(),
        ];
        for kind in &KINDS {
            assert_eq!(
                OpSpec::new("f", kind).subject(),
                Subject::Foreign,
                "{kind:?}"
            );
            assert_eq!(
                OpSpec::new("f", kind).params(&ID).subject(),
                Subject::Record,
                "{kind:?}"
            );
        }
    }
}
