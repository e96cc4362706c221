//! The values that a statement writes or computes.

use super::Function;
use crate::Value;
use crate::entity::{EntityDesc, Kind};
use crate::filter::{Filter, Source};

/// A write to one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Assign {
    /// The position of the field.
    pub field: usize,
    /// The written value.
    pub value: AssignValue,
}

/// A value that is written to a field.
#[derive(Clone, Debug, PartialEq)]
pub enum AssignValue {
    /// A value.
    Set(Source),
    /// The old value plus this value. Null counts as zero.
    Add(Source),
    /// The old list of strings with this element at the end. Null counts as empty.
    Push {
        /// The element.
        value: Source,
        /// Whether an element that is already in the list is not added again.
        dedupe: bool,
    },
    /// The old list of strings without this element. Null counts as empty.
    Pull(Source),
    /// The old list of items with this item at the end, as JSON.
    AddItem(Source),
    /// The old list of items without the item whose member has this value.
    RemoveItem {
        /// The wire name of the member.
        key: &'static str,
        /// The value of the member.
        id: Source,
    },
    /// The old list of items with replaced members in one of them.
    ChangeItem {
        /// The name of the member that identifies an item.
        key: &'static str,
        /// The value of the member.
        id: Source,
        /// The wire names of the members and their new values as JSON.
        members: Vec<(&'static str, Source)>,
    },
    /// A number over records of the same store, computed when the statement runs. A statement has
    /// at most one figure, and only if the store [computes](crate::store::Store::computes) it.
    Figure(Box<Figure>),
}

impl AssignValue {
    /// Calls `note` with every source.
    pub fn sources(&self, note: &mut impl FnMut(&Source)) {
        match self {
            Self::Set(source)
            | Self::Add(source)
            | Self::Push { value: source, .. }
            | Self::Pull(source)
            | Self::AddItem(source) => {
                note(source);
            }
            Self::RemoveItem { id, .. } => note(id),
            Self::ChangeItem { id, members, .. } => {
                note(id);
                for (_, source) in members {
                    note(source);
                }
            }
            Self::Figure(figure) => {
                figure.filter.sources(note);
                figure.compute.filter.sources(note);
            }
        }
    }

    /// Returns the figure, if the value is one.
    pub fn figure(&self) -> Option<&Figure> {
        match self {
            Self::Figure(figure) => Some(figure),
            _ => None,
        }
    }
}

/// A number over records, stored in a record of another entity or of the same one.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The entity of the counted records.
    pub source: &'static EntityDesc,
    /// The condition on these records, in field positions of that entity.
    pub filter: Filter,
    /// The computation.
    pub compute: Compute,
    /// The minimum and the maximum of the field. If the number is outside, the statement writes
    /// nothing and returns no row.
    pub within: (Value, Value),
    /// Whether the field can be null.
    pub optional: bool,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.source, other.source)
            && self.filter == other.filter
            && self.compute == other.compute
            && self.within == other.within
            && self.optional == other.optional
    }
}

/// A value computed from a group of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The function.
    pub function: Function,
    /// The field; `Count` ignores it.
    pub field: usize,
    /// The condition on the records of the group.
    pub filter: Filter,
}

impl Compute {
    /// Returns the type of the result.
    pub fn kind(&self, entity: &EntityDesc) -> Kind {
        match self.function {
            Function::Count => Kind::Integer,
            Function::Avg => Kind::Number,
            Function::Sum | Function::Min | Function::Max => entity
                .fields
                .get(self.field)
                .map_or(Kind::Json, |field| field.kind),
        }
    }
}
