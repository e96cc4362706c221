//! Operations: their declarations, and an executor per kind.
//!
//! An executor is planned once per mounted entity at start-up, and runs once per call.

mod aggregate;
mod array;
mod batch;
pub(crate) mod bind;
mod collection;
mod computed_aggregate;
mod conditional_write;
mod consume;
mod custom;
mod derive;
mod executor;
mod exists;
mod field_update;
mod increment;
mod lookup;
pub(crate) mod permit;
mod restore;
mod search;
mod transition;
mod upsert;
mod write;

pub use linchpin_core::operation::*;

pub use crate::store::memory::OnMemory;
#[cfg(feature = "postgres")]
pub use crate::store::postgres::OnPostgres;
#[cfg(feature = "sqlite")]
pub use crate::store::sqlite::OnSqlite;
pub use crate::store::{CustomStore, SqlStore};
pub(crate) use bind::{check, equalities, resolve, value_of};
pub(crate) use custom::call as custom_call;
#[cfg(feature = "postgres")]
pub use custom::call::PostgresCall;
#[cfg(feature = "sqlite")]
pub use custom::call::SqliteCall;
pub use custom::{
    Handler,
    call::{CustomCall, MemoryCall, Sql},
    records::Records,
};
pub(crate) use transition::choice as transition_choice;
pub use transition::{Chooser, choice::ChooserCall};

/// Plans an operation for one mounted entity: prepares everything that does not depend on a call.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(crate) fn plan(
    spec: &'static OpSpec,
    table: &crate::resource::Table,
) -> crate::Result<Box<dyn crate::resource::Executor>> {
    match spec.kind.options() {
        Options::Aggregate(kind) => Ok(aggregate::plan(kind, spec, table)),
        Options::ArrayWrite(kind) => array::plan(kind, spec, table),
        Options::Batch(kind) => batch::plan(kind, spec, table),
        Options::Collection(kind) => collection::plan(kind, spec, table),
        Options::ComputedAggregate(kind) => Ok(computed_aggregate::plan(kind, spec, table)),
        Options::Consume(kind) => consume::plan(kind, spec, table),
        Options::Custom(kind) => custom::plan(kind, spec, table),
        Options::Derive(kind) => Ok(derive::plan(kind, spec, table)),
        Options::Exists(kind) => exists::plan(kind, spec, table),
        Options::FieldUpdate(kind) => field_update::plan(kind, spec, table),
        Options::Increment(kind) => increment::plan(kind, spec, table),
        Options::Lookup(kind) => lookup::plan(kind, spec, table),
        Options::Restore(kind) => restore::plan(kind, spec, table),
        Options::Search(kind) => Ok(search::plan(kind, spec, table)),
        Options::Transition(kind) => transition::plan(kind, spec, table),
        Options::Upsert(kind) => Ok(upsert::plan(kind, spec, table)),
    }
}
