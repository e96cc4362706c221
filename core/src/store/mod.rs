//! The interface of stores. All routes and operations use it.
//!
//! A [`Plan`] describes a statement with field positions and argument slots. [`Store::prepare`]
//! translates it once to a [`Statement`]. Each call runs the statement with typed arguments, and
//! the store pushes rows into a [`Rows`] collector. The callers of this module do not depend on the
//! kind of store.

mod assign;
mod create;
mod custom;
mod custom_sql;
pub mod evaluate;
mod items;
mod kind;
mod names;
mod numbers;
mod outbox;
mod plan;
mod recording;
mod rows;
mod sql;
mod transaction;
mod url;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use crate::{indexed, layout};
pub use assign::{assign, fixed};
pub use create::create_tables;
pub use custom::{CustomStore, SqlStore};
pub use custom_sql::CustomSql;
pub use kind::{StoreKind, StoreProvider};
pub use names::{Conversion, Filler, Names, Pending, RefreshNames, Replaced, TableNames};
pub use numbers::Numbers;
pub use outbox::{Committed, Lost, Outbox, Parked, Waiting};
pub use plan::{
    After, Assign, AssignValue, Compute, Figure, Function, Group, Order, Pick, Plan, Truncate,
    aggregate_kinds,
};
pub use recording::{Audience, Name, Recording, RouteEvent};
pub use rows::{Note, Notes, Projection, Row, Rows};
pub use sql::{SqlAnswer, SqlColumns, SqlDriver, SqlQuery, SqlRow, SqlSession, SqlTransaction};
pub use transaction::{LockWait, Transaction};
pub use url::DatabaseUrl;

use crate::entity::EntityDesc;
use crate::{Result, Value};

/// A plan that a store has translated.
pub struct Statement {
    /// The entity of the statement.
    pub entity: &'static EntityDesc,
    /// The plan before translation.
    pub plan: Plan,
    /// The translated form; each store has its own type.
    pub native: Box<dyn Any + Send + Sync>,
}

/// The result of a statement: ready, or a future.
///
/// An embedded store runs reads inline. Boxing a future for each read would cost time in each
/// request.
pub enum Reply<'a> {
    /// The rows are ready.
    Ready(Result<Rows>),
    /// The rows come from this future.
    Later(Pin<Box<dyn Future<Output = Result<Rows>> + Send + 'a>>),
}

impl Reply<'_> {
    /// Returns the reply itself, which is a future: `reply.rows().await` waits for the rows.
    #[must_use]
    pub fn rows(self) -> Self {
        self
    }
}

impl Future for Reply<'_> {
    /// The rows, or the error of the store.
    type Output = Result<Rows>;

    // Implemented by hand: the future of an async function would store the rows twice.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(rows) => Poll::Ready(std::mem::replace(rows, Ok(Rows::count()))),
            Self::Later(future) => future.as_mut().poll(cx),
        }
    }
}

/// A store of records.
pub trait Store: Send + Sync + 'static {
    /// The facts of the store: its name, its capabilities, and how it behaves.
    fn kind(&self) -> &'static StoreKind;

    /// The name that entities use: `memory`, `sqlite`, `postgres`.
    fn name(&self) -> &'static str {
        self.kind().name
    }

    /// Whether the store has a capability.
    fn supports(&self, capability: &str) -> bool {
        self.kind().grants(capability)
    }

    /// Translates a plan. It runs once per statement: at start-up, or when a request first uses a
    /// new combination of filters.
    ///
    /// # Errors
    /// If the store cannot express the plan.
    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>>;

    /// Runs a statement. `args` fill the argument slots of the plan. The store adds the rows to
    /// `rows` and returns it.
    ///
    /// A unique violation is [`Error::unique`](crate::Error::unique) with the wire names of the
    /// violated constraint's fields; a full queue or an unreachable server is `unavailable`;
    /// anything unforeseen is `internal`.
    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a>;

    /// Whether a statement can take long. Then `rows` must name the caller, so that the store can
    /// share its capacity between callers.
    ///
    /// The default is `false`.
    fn may_take_long(&self, statement: &Statement) -> bool {
        let _ = statement;
        false
    }

    /// Whether the store can compute a number over other records and write it in one statement
    /// ([`AssignValue::Figure`]). If `last` is true, the answer also covers concurrent statements
    /// that write to the same record: the number of the last statement must then include the
    /// records that the earlier statements read.
    ///
    /// The default is `false`: such numbers are computed and written in a transaction.
    fn computes(&self, last: bool) -> bool {
        let _ = last;
        false
    }

    /// Whether a transaction is the only writer, so that the records it read cannot change.
    fn alone(&self) -> bool {
        self.kind().alone
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `unavailable` if the store cannot begin one now; `internal` if it has no transactions.
    fn begin(&self) -> crate::BoxFuture<'_, Result<Box<dyn Transaction>>> {
        let name = self.name();
        Box::pin(async move {
            Err(crate::Error::internal(format!(
                "store `{name}` has no transactions"
            )))
        })
    }

    /// Begins a transaction that waits for locks as long as `lock_wait` allows. The default
    /// implementation ignores `lock_wait`.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    fn begin_with(
        &self,
        lock_wait: LockWait,
    ) -> crate::BoxFuture<'_, Result<Box<dyn Transaction>>> {
        let _ = lock_wait;
        self.begin()
    }

    /// Returns the handle that custom operations use, such as a connection pool: a
    /// [`CustomStore::Native`] in a box. The default is `None`.
    fn native(&self) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// Returns the driver for SQL of custom operations; `None` if the store does not run SQL, which
    /// is the default. A store with SQL also implements [`SqlStore`] for its type.
    fn sql(&self) -> Option<Arc<dyn SqlDriver>> {
        None
    }

    /// Returns the outbox of the store; `None` if it cannot store events.
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// Returns the schema of the database. Start-up compares it with the declarations, and creates
    /// the tables if the database is empty; migrations change it. `None`, which is the default, is
    /// for a store without tables; such a store adds an entity when a statement first uses it.
    fn schema(&self) -> Option<&dyn crate::schema::SchemaStore> {
        None
    }

    /// Sets the names of tables and columns in the database. Statements, also prepared ones, use
    /// them from the next call on. The default does nothing, for stores without migrations.
    fn set_names(&self, names: Arc<Names>) {
        let _ = names;
    }

    /// Sets the function that reads the names again. If the database does not find a table or a
    /// column of a generated statement, the store calls it, and runs the statement once more under
    /// the new names. Within a transaction the statement fails with `schema_pending` instead.
    ///
    /// The default does nothing, for stores without migrations.
    fn on_stale_names(&self, refresh: RefreshNames) {
        let _ = refresh;
    }

    /// Checks whether the store is ready.
    ///
    /// # Errors
    /// The cause, for the log.
    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>>;

    /// Finishes accepted work and closes. Later reads and writes return `unavailable`. Closing
    /// again does nothing.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
