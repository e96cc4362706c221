//! Operations: the declarations of each kind, as data.
//!
//! One file per kind. A kind is a static struct of its options that implements [`Kind`]; the server
//! plans it once at start-up.

mod aggregate;
mod array;
mod batch;
mod build;
mod collection;
mod computed_aggregate;
mod consume;
mod custom;
mod derive;
mod exists;
mod extra;
mod field_update;
mod increment;
mod kind;
mod lookup;
mod restore;
mod search;
mod spec;
mod transition;
mod upsert;

pub use aggregate::{Aggregate, Function, Group, MAX_GROUPS, Output};
pub use array::{ArrayAction, ArrayWrite};
pub use batch::Batch;
pub use collection::{Collection, ItemBounds, Method as CollectionMethod};
pub use computed_aggregate::ComputedAggregate;
pub use consume::Consume;
#[doc(hidden)]
pub use custom::custom_params;
pub use custom::{Custom, MAX_HANDLERS, Output as CustomOutput, Shape, StoreHandler};
pub use derive::{Derive, MAX_DERIVED, Merge, Part, Through};
pub use exists::Exists;
pub use extra::ExtraRouteSpec;
pub use field_update::FieldUpdate;
pub use increment::Increment;
pub use kind::{Answer, Fixed, Kind, NamedSort, Options};
pub use lookup::Lookup;
pub use restore::Restore;
pub use search::Search;
pub use spec::{
    AssignSpec, Method, OpSpec, Operation, ParamSpec, Place, Returns, RouteSpec, Seg, Subject,
    Whole,
};
pub use transition::Transition;
pub use upsert::Upsert;
