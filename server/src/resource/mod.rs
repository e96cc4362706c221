//! A resource: one mounted entity. All of its statements, from HTTP and from code, take one path to
//! the store.
//!
//! ```text
//! HTTP route, adapter, executor, included relation
//!   Table::execute            a written key must refer to a visible record; a deletion follows
//!                             its `on_delete` rules
//!     Statements::execute     events of the change
//!       restrict              scopes, visibility filters and permissions: the only place
//!         with_effects        counters of other records, audit log
//!           with_computed     computed fields
//!             dispatch        the transaction of the call, or the store
//! ```
//!
//! The guards of a route decide earlier, in [`http`](crate::http), whether a caller may call the
//! route at all. [`Table`] is not generic; [`Adapter`] adds the types of an entity.

mod adapter;
mod adapters;
mod aggregate;
#[doc(hidden)]
pub mod answer;
pub(crate) mod audit;
mod by_keys;
pub(crate) mod computed;
mod counter_backfill;
mod cursor;
mod declared;
mod effects;
mod event_guard;
mod extensions;
pub(crate) mod gate;
mod include;
mod integrity;
mod key;
mod page;
mod prepared;
pub(crate) mod restriction;
mod run;
mod statement;
mod summaries;
pub(crate) mod sweep;
mod table;
mod touch;
mod write;

use std::sync::Arc;

pub use adapter::Adapter;
pub(crate) use adapter::records_of;
pub use adapters::Adapters;
pub(crate) use by_keys::SearchRequest;
pub(crate) use counter_backfill::is_key_predictable;
pub use cursor::CursorKey;
pub(crate) use cursor::encode;
pub use event_guard::{EventGate, EventGuard, EventScope, EventState, EventTuple};
pub(crate) use include::field_of;
pub use include::{Include, Includes};
pub use linchpin_core::validate::Draft;
pub use page::ListRequest;
pub(crate) use page::{PageRequest, refused};
pub use prepared::Prepared;
pub use run::{CallArgs, run};
pub(crate) use table::Borrowed;
pub use table::Table;
pub(crate) use write::{ChangeAttempts, MAX_REPEATS};

pub use linchpin_core::BoxFuture;

use crate::entity::PageArgs;
use crate::store::{Projection, Rows};
use crate::{Cx, Result, Value};

/// The return type of operation methods: a future of `Result<T>`.
#[must_use = "nothing is done before it is awaited"]
pub trait ResultFuture<T>: Future<Output = crate::Result<T>> {}

impl<T, F: Future<Output = crate::Result<T>>> ResultFuture<T> for F {}

/// The form of returned records.
#[derive(Debug, Clone)]
pub enum Form {
    /// As JSON objects of these fields.
    Json(Arc<Projection>),
    /// As JSON objects, with the end of each row and the values of some fields.
    Noted(Arc<Projection>, Arc<[usize]>),
    /// As values.
    Records,
}

/// A call of an operation.
#[derive(Debug)]
pub struct Call<'a> {
    /// The context of the call.
    pub cx: &'a Cx,
    /// One value per parameter of the operation; `None` if omitted, `Null` if given as null. The
    /// creator of a call must check that types are right and required values are present.
    pub args: Vec<Option<Value>>,
    /// Limit and cursor of calls that return pages.
    pub page: PageArgs,
    /// The form of returned records.
    pub form: &'a Form,
    /// The version the caller expects (`If-Match`).
    pub version: Option<i64>,
}

/// The result of a call.
#[derive(Debug)]
pub enum Outcome {
    /// One record, or none (`count` 0).
    Record(Rows),
    /// A page.
    Page {
        /// The records.
        rows: Rows,
        /// The cursor of the next page.
        next_cursor: Option<String>,
    },
    /// An array of records.
    List(Rows),
    /// Aggregates over records.
    Numbers {
        /// Key and members of each group, if the caller wants values.
        rows: Vec<Vec<Value>>,
        /// The same groups as JSON objects separated by commas.
        json: Vec<u8>,
    },
    /// A bare boolean.
    Boolean(bool),
    /// A number of records.
    Count(u64),
    /// Any complete JSON value.
    Json(Vec<u8>),
    /// No value.
    Nothing,
    /// One record, with its key in `last`; `created` says whether it is new.
    Upserted(Rows),
}

/// A planned operation.
pub trait Executor: Send + Sync {
    /// Runs the operation.
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>>;

    /// Adds the problems of arguments that only the executor checks, for a call that is refused
    /// anyway.
    fn judge(&self, table: &Table, args: &[Option<Value>], problems: &mut Vec<crate::Problem>) {
        let _ = (table, args, problems);
    }
}
