//! Transactions of a store.

use std::sync::Arc;

use super::{Rows, Statement};
use crate::{BoxFuture, Result, Value};

/// How long a transaction waits for locks of other transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockWait {
    /// It waits until the timeout of a statement, because it is not retried.
    #[default]
    UntilTimeout,
    /// It waits for a short time. Then it fails, and the caller retries it.
    Short,
    /// It waits longer than `Short`, because it failed before. It is a retry.
    Extended,
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

    /// Takes the advisory lock with the number `key` and holds it until the transaction ends. It
    /// waits while another transaction holds this lock.
    ///
    /// # Errors
    /// `unavailable` if the transaction is lost.
    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, Result<()>> {
        // The default is for stores with at most one writing transaction at a time. They need no
        // lock.
        let _ = key;
        Box::pin(async { Ok(()) })
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// `unavailable` if the commit fails. Then the transaction is rolled back, but if the
    /// connection was lost during the commit, the result is unknown.
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
