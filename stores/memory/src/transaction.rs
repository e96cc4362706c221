//! A transaction: it locks the whole store and can undo all its changes.

use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;

use super::outbox::Queue;
use super::table::{Saved, Table};
use super::{Memory, native_of};
use linchpin_core::BoxFuture;
use linchpin_core::store::{Rows, Statement, Transaction};
use linchpin_core::{Result, Value};

/// A transaction whose changes are invisible to others.
pub(super) struct Alone {
    _gate: OwnedRwLockWriteGuard<()>,
    /// The tables that it has changed, with their previous contents.
    before: Vec<(Arc<Table>, Saved)>,
    outbox: Arc<Queue>,
}

impl Alone {
    pub(super) fn new(gate: OwnedRwLockWriteGuard<()>, outbox: Arc<Queue>) -> Self {
        outbox.hold();
        Self {
            _gate: gate,
            before: Vec::new(),
            outbox,
        }
    }
}

impl Transaction for Alone {
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

impl Drop for Alone {
    fn drop(&mut self) {
        for (table, saved) in self.before.drain(..) {
            table.restore(saved);
        }
        // Nothing is left after a commit.
        self.outbox.discard();
    }
}
