//! Stores: the few primitives every route and operation lowers to.
//!
//! A [`Plan`] says what a statement does, in field positions and argument slots. A store turns it into a [`Statement`] once
//! ([`Store::prepare`]) and runs it per call with typed arguments, pushing rows into a [`Rows`] collector. The
//! executors above know a store by its name and its grants alone.

mod assign;
mod capabilities;
mod items;
mod outbox;
mod plan;
mod rows;
mod transaction;
mod words;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use crate::{indexed, layout};
pub use assign::{assign, fixed};
pub use capabilities::{STORES, granted};
pub use outbox::Outbox;
pub use plan::{After, Assign, AssignValue, Compute, Figure, Function, Group, Order, Pick, Plan, Truncate, aggregate_kinds};
pub use rows::{Note, Notes, Projection, Row, Rows};
pub use transaction::{Patience, Transaction};
pub use words::Words;

use crate::entity::EntityDesc;
use crate::{Result, Value};

/// A plan that a store has translated.
pub struct Statement {
    /// The entity it works on.
    pub entity: &'static EntityDesc,
    /// What it does.
    pub plan: Plan,
    /// The store's own form of it.
    pub native: Box<dyn Any + Send + Sync>,
}

/// The answer of a store: at hand already, or later.
///
/// An embedded store answers reads inline, and a future for each of them would be paid for on every request.
pub enum Reply<'a> {
    /// Done.
    Ready(Result<Rows>),
    /// To be awaited.
    Later(Pin<Box<dyn Future<Output = Result<Rows>> + Send + 'a>>),
}

impl Reply<'_> {
    /// Waits for the rows.
    #[must_use]
    pub fn rows(self) -> Self {
        self
    }
}

impl Future for Reply<'_> {
    /// Whatever the store answered.
    type Output = Result<Rows>;

    // By hand: an async function would hold the rows twice, and every read by key would carry that.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(rows) => Poll::Ready(std::mem::replace(rows, Ok(Rows::count()))),
            Self::Later(future) => future.as_mut().poll(cx),
        }
    }
}

/// A place where records live.
pub trait Store: Send + Sync + 'static {
    /// `memory`, `sqlite` and so on, as entities name it.
    fn name(&self) -> &'static str;

    /// Whether it grants a capability of the matrix.
    fn supports(&self, capability: &str) -> bool;

    /// Translates a plan. Called once per statement, never per request (but on the first use of a new shape).
    ///
    /// # Errors
    /// When the store cannot express the plan.
    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>>;

    /// Runs a statement. `args` fill the plan's argument slots; rows go into `rows`, which comes back.
    ///
    /// A unique violation is [`Error::unique`](crate::Error::unique) with the wire names of the violated constraint's
    /// fields; a full queue or an unreachable server is `unavailable`; anything unforeseen is `internal`.
    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a>;

    /// Whether a statement may take long, so that the store shares its means among callers: `rows` name them then.
    fn may_take_long(&self, statement: &Statement) -> bool;

    /// Whether one statement computes a number over other records and writes it ([`AssignValue::Figure`]). `last` asks whether of
    /// several that write to one record the last has seen what the others saw.
    fn computes(&self, last: bool) -> bool;

    /// Whether nobody else writes while a transaction lasts, so that nothing it has read can change.
    fn alone(&self) -> bool;

    /// Begins a transaction.
    ///
    /// # Errors
    /// `unavailable` when the store cannot begin one at present; `internal` when it has none at all.
    fn begin(&self) -> crate::BoxFuture<'_, Result<Box<dyn Transaction>>> {
        let name = self.name();
        Box::pin(async move { Err(crate::Error::internal(format!("store `{name}` has no transactions"))) })
    }

    /// Begins a transaction that waits for others as `patience` says. By default they differ in nothing.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    fn begin_with(&self, patience: Patience) -> crate::BoxFuture<'_, Result<Box<dyn Transaction>>> {
        let _ = patience;
        self.begin()
    }

    /// What functions of custom operations reach it by: a handle of the store's own type, such as a connection pool. None by
    /// default.
    fn native(&self) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// Where the events of its records wait; `None` when it cannot keep any.
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// Creates missing tables and compares existing ones with the declaration.
    ///
    /// # Errors
    /// When what is stored differs from what is declared; the text lists every difference.
    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

    /// Whether it can answer at present.
    ///
    /// # Errors
    /// The cause, for the log.
    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>>;

    /// Finishes accepted work and closes. Whatever comes later, reads too, is `unavailable`; closing again does nothing.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
