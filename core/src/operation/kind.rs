//! The interface of an operation kind: its declared options, its response, its plan.

use linchpin_vocabulary::kind::{Changes, KindFacts};

use crate::entity::{EntityDesc, FieldSet, Paging, SortDesc};
use crate::filter::{FilterSpec, SourceSpec};

use super::spec::AssignSpec;

/// A field, a constant value that the operation may write to it, and whether the value is one
/// element of the field's list.
pub type Fixed = (usize, fn() -> crate::Value, bool);

/// One kind of operation: its declared options and the facts that follow from them.
///
/// A fact of the kind itself is data in [`KindFacts`]. A fact of only one kind is a field of its
/// options; the methods of `dyn Kind` read it.
pub trait Kind: std::fmt::Debug + Send + Sync + 'static {
    /// The options, by kind.
    fn options(&'static self) -> Options;

    /// The facts that do not depend on the declaration.
    fn facts(&self) -> &'static KindFacts;

    /// The capability that the store must grant.
    fn capability(&self) -> &'static str {
        if self.reads() {
            self.facts().read_capability
        } else {
            self.facts().capability
        }
    }

    /// The form of a successful answer, for OpenAPI and the HTTP layer.
    fn returns(&self) -> Answer;

    /// Whether it changes the one record that its path names, so that `If-Match` applies to it.
    fn by_id(&self) -> bool {
        matches!(self.returns(), Answer::Record | Answer::Boolean)
    }

    /// The fields by which it finds its record, and their values; empty if it uses the id alone.
    /// Parameters that a call leaves out are not compared.
    fn matches(&self) -> &'static [AssignSpec] {
        &[]
    }

    /// The value that it writes to a field.
    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        let _ = field;
        None
    }

    /// Values of its declaration that it writes in addition to [`Kind::writes`].
    fn fixed(&self) -> Vec<Fixed> {
        Vec::new()
    }

    /// The fields of its own entity's records that it may change: all fields if it creates or
    /// deletes records, or if a function of the app decides. Fields that every change writes
    /// (on-update dates, version, expiry) are not included.
    fn touches(&self, on: &EntityDesc) -> FieldSet {
        (0..on.fields.len())
            .filter(|field| self.writes(*field).is_some())
            .collect()
    }

    /// Whether it only reads. For example, an entity may let anonymous callers read records without
    /// a tenant, but not change them.
    fn reads(&self) -> bool {
        self.facts().changes == Changes::Nothing
    }

    /// Whether it works only on deleted records.
    fn selects_deleted(&self) -> bool {
        false
    }

    /// The errors of this kind, in addition to those of every route. For OpenAPI.
    fn errors(&self) -> &'static [crate::Code] {
        &[]
    }

    /// The maximum number of statements of a call, without retries after a concurrent change.
    /// `None` if a function of the app decides.
    fn statements(&self, on: &EntityDesc) -> Option<usize> {
        let _ = on;
        // If the first statement changes no record, a second one finds the reason.
        Some(if self.by_id() && !self.reads() { 2 } else { 1 })
    }

    /// The declared filter, for introspection.
    fn filter(&self) -> Option<&FilterSpec> {
        None
    }
}

/// Facts that follow from the `KindFacts` and the options of a kind.
impl dyn Kind {
    /// The name of the kind in a declaration: `transition`.
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Whether it runs a function of the app. A permission is then checked before the call.
    pub fn runs_code(&self) -> bool {
        self.facts().changes == Changes::Unknown
    }

    /// Whether the declaration has a function for this store, so that the store needs no
    /// capability.
    pub fn has_handler_for(&'static self, store: &str) -> bool {
        matches!(self.options(), Options::Custom(custom) if custom.handler(store).is_some())
    }

    /// SQL texts that its functions run. The database checks them at start-up.
    pub fn texts(&'static self) -> &'static [&'static str] {
        match self.options() {
            Options::Custom(custom) => custom.texts,
            _ => &[],
        }
    }

    /// The form of its answer, if a type declares it.
    pub fn shape(&'static self) -> Option<super::Shape> {
        match self.options() {
            Options::Custom(custom) => Some(custom.output),
            _ => None,
        }
    }

    /// The limits that it sets for a list of items. They hold for every write of the list.
    pub fn bounds(&'static self) -> Option<super::ItemBounds> {
        match self.options() {
            Options::Collection(collection) => Some(collection.bounds()),
            _ => None,
        }
    }

    /// The parameters with which a call selects a page.
    pub fn paging(&'static self) -> Paging {
        match self.options() {
            Options::Lookup(lookup) => lookup.paging(),
            _ => Paging::Limit,
        }
    }

    /// The orders that a call chooses by name. The first is the default.
    pub fn sorts(&'static self) -> &'static [NamedSort] {
        match self.options() {
            Options::Lookup(lookup) => lookup.sorts,
            _ => &[],
        }
    }

    /// Whether the operation uses the search provider of its entity, if the entity has one.
    pub fn uses_provider(&'static self) -> bool {
        matches!(self.options(), Options::Search(search) if !search.in_store)
    }

    /// The sources that it merges.
    pub fn derived(&'static self) -> Option<&'static super::Derive> {
        match self.options() {
            Options::Derive(derive) => Some(derive),
            _ => None,
        }
    }

    /// The entity of the record in its response, if it is not the operation's own entity.
    pub fn answers(&'static self) -> Option<&'static EntityDesc> {
        match self.options() {
            Options::ComputedAggregate(computed) => computed.target,
            _ => None,
        }
    }

    /// The declared state transition.
    pub fn transition(&'static self) -> Option<&'static super::Transition> {
        match self.options() {
            Options::Transition(transition) => Some(transition),
            _ => None,
        }
    }

    /// The declared numbers, if it is an aggregate.
    pub fn aggregate(&'static self) -> Option<&'static super::Aggregate> {
        match self.options() {
            Options::Aggregate(aggregate) => Some(aggregate),
            _ => None,
        }
    }
}

/// The declared options of an operation, by kind. The server plans an executor from them.
#[derive(Clone, Copy, Debug)]
pub enum Options {
    /// The options of `aggregate`.
    Aggregate(&'static super::Aggregate),
    /// The options of `array_push`, `array_pull` and `array_set`.
    ArrayWrite(&'static super::ArrayWrite),
    /// The options of `batch`.
    Batch(&'static super::Batch),
    /// The options of `collection`.
    Collection(&'static super::Collection),
    /// The options of `computed_aggregate`.
    ComputedAggregate(&'static super::ComputedAggregate),
    /// The options of `consume`.
    Consume(&'static super::Consume),
    /// The options of `custom`.
    Custom(&'static super::Custom),
    /// The options of `derive`.
    Derive(&'static super::Derive),
    /// The options of `exists`.
    Exists(&'static super::Exists),
    /// The options of `field_update`.
    FieldUpdate(&'static super::FieldUpdate),
    /// The options of `increment`.
    Increment(&'static super::Increment),
    /// The options of `lookup`.
    Lookup(&'static super::Lookup),
    /// The options of `restore`.
    Restore(&'static super::Restore),
    /// The options of `search`.
    Search(&'static super::Search),
    /// The options of `transition`.
    Transition(&'static super::Transition),
    /// The options of `upsert`.
    Upsert(&'static super::Upsert),
}

/// An order that calls choose by name.
#[derive(Debug)]
pub struct NamedSort {
    /// The name in calls.
    pub name: &'static str,
    /// The fields of the order. The primary key breaks ties, in the direction of the last field.
    pub keys: &'static [SortDesc],
}

#[doc(hidden)]
impl NamedSort {
    /// An order with this name.
    pub const fn new(name: &'static str, keys: &'static [SortDesc]) -> Self {
        Self { name, keys }
    }

    /// Returns the error message for a call with an unknown name.
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

/// The form of a successful response.
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
    /// A value with a declared type.
    Value,
    /// An array of items from other entities.
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
        /// The position of the list's field.
        field: usize,
    },
    /// One item of a list.
    Item {
        /// The position of the list's field.
        field: usize,
        /// Whether the item is new. The status is then 201.
        created: bool,
    },
    /// 204.
    Nothing,
    /// The record, with 201 if it is new; `{ "entity", "created" }` if `wrapped` is true.
    Upserted {
        /// Whether the response is an object around the record.
        wrapped: bool,
    },
}

#[cfg(test)]
mod tests {
    use crate::operation::{Custom, OpSpec, ParamSpec, Shape, Subject};

    /// A permission on a function never depends on the changes that the function might make.
    #[test]
    fn the_subject_of_a_function_is_the_record_in_its_path() {
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
