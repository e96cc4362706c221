//! Operations: what a declaration says, and how a kind runs.
//!
//! One file per kind. A kind is a static struct that implements [`Kind`]: it plans once at start-up and runs per call.

mod aggregate;
mod array;
mod audited;
mod batch;
#[cfg(feature = "server")]
pub(crate) mod bind;
mod build;
mod collection;
mod computed_aggregate;
mod consume;
mod custom;
mod derive;
mod duplicates;
mod exists;
mod field_update;
#[cfg(feature = "server")]
mod guarded;
mod increment;
mod kind;
mod lookup;
mod restore;
mod scoped;
mod search;
mod spec;
mod transition;
mod upsert;
#[cfg(feature = "server")]
mod write;

#[cfg(feature = "server")]
pub(crate) use bind::{check, equalities, resolve, value_of};

pub use aggregate::{Aggregate, MOST_GROUPS, Output};
pub use array::{ArrayAction, ArrayWrite};
#[cfg(feature = "server")]
pub use audited::assert_route_audited;
pub use audited::{assert_action, assert_audited, assert_operation_audited};
pub use batch::Batch;
pub use collection::{Collection, ItemBounds, Method as CollectionMethod};
pub use computed_aggregate::ComputedAggregate;
pub use consume::Consume;
#[cfg(feature = "server")]
pub(crate) use custom::call as custom_call;
#[cfg(feature = "postgres")]
pub use custom::call::{OnPostgres, PostgresCall};
#[cfg(feature = "sqlite")]
pub use custom::call::{OnSqlite, SqliteCall};
#[doc(hidden)]
pub use custom::custom_params;
pub use custom::{Custom, Output as CustomOutput, Shape};
#[cfg(feature = "server")]
pub use custom::{
    Handler, Handlers,
    call::{CustomCall, CustomStore, MemoryCall, OnMemory, Sql, SqlStore},
    records::Records,
};
pub use derive::{Derive, MOST_DERIVED, Merge, Part, Through};
pub(crate) use duplicates::sentence::Sentence;
pub use duplicates::{assert_apart, assert_distinct_routes, assert_unique, beginnings, find_duplicates};
pub use exists::Exists;
pub use field_update::FieldUpdate;
pub use increment::Increment;
pub use kind::{Answer, Kind, NamedSort};
pub use lookup::Lookup;
pub use restore::Restore;
pub use scoped::assert_scoped;
pub use search::Search;
pub use spec::{AssignSpec, Method, OpSpec, Operation, ParamSpec, Place, Returns, RouteSpec, Seg, Subject, Whole};
pub use transition::Transition;
#[cfg(feature = "server")]
pub(crate) use transition::choice as transition_choice;
#[cfg(feature = "server")]
pub use transition::{Chooser, choice::ChooserCall};
pub use upsert::Upsert;
