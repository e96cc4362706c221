//! Transactions of a store.

use std::sync::Arc;

use super::{Rows, Statement};
use crate::{BoxFuture, Result, Value};

/// How long a transaction waits for locks of other transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It waits until the timeout of a statement, because it is not retried.
    #[default]
    Once,
    /// It waits for a short time. Then it fails, and the caller retries it.
    Brief,
    /// It waits longer than `Brief`, because it failed before. It is a retry.
    Long,
}

/// An open transaction. Dropping it rolls it back.
pub trait Transaction: Send {
    /// Runs a statement of the store. A refused statement rolls back only itself; the transaction
    /// stays usable.
    ///
    /// # Errors
    /// The errors of the statement; `unavailable` if the transaction is lost.
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>>;

    /// Takes the lock with the number `turn` until the transaction ends. It waits while another
    /// transaction has this lock.
    ///
    /// # Errors
    /// `unavailable` if the transaction is lost.
    fn take_turn(&mut self, turn: i64) -> BoxFuture<'_, Result<()>> {
        // By default a store has only one writing transaction, so it needs no lock.
        let _ = turn;
        Box::pin(async { Ok(()) })
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// `unavailable` if the commit fails; then the transaction is rolled back.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Rolls the transaction back and waits for the end of the rollback. Then all its locks are
    /// free.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()>
    where
        Self: 'static,
    {
        Box::pin(async move { drop(self) })
    }
}
