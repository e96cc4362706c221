//! A transaction: it locks the whole store and can undo all its changes.

use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;

use super::outbox::Queue;
use super::table::{Saved, Table};
use super::{Memory, native_of};
use linchpin_core::BoxFuture;
use linchpin_core::store::{Rows, Statement, Transaction};
use linchpin_core::{Result, Value};

/// A transaction. It has exclusive access to the store, so its changes are invisible to others.
pub(super) struct ExclusiveTransaction {
    _lock: OwnedRwLockWriteGuard<()>,
    /// The tables that the transaction has changed, with their previous contents.
    before: Vec<(Arc<Table>, Saved)>,
    outbox: Arc<Queue>,
}

impl ExclusiveTransaction {
    pub(super) fn new(transaction_lock: OwnedRwLockWriteGuard<()>, outbox: Arc<Queue>) -> Self {
        outbox.hold();
        Self {
            _lock: transaction_lock,
            before: Vec::new(),
            outbox,
        }
    }
}

impl Transaction for ExclusiveTransaction {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move {
            let table = &native_of(statement)?.table;
            if !statement.plan.reads()
                && !self
                    .before
                    .iter()
                    .any(|(saved, _)| Arc::ptr_eq(saved, table))
            {
                self.before.push((Arc::clone(table), table.save()));
            }
            Memory::answer(statement, args, rows)
        })
    }

    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.before.clear();
        self.outbox.release();
        Box::pin(async { Ok(()) })
    }
}

impl Drop for ExclusiveTransaction {
    fn drop(&mut self) {
        for (table, saved) in self.before.drain(..) {
            table.restore(saved);
        }
        // After a commit, there is nothing to undo.
        self.outbox.discard();
    }
}
