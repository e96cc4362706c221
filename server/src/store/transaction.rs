//! The transaction of a call context.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Mutex;

use super::{LockWait, Rows, Statement, Store, Transaction};
use crate::{Code, Error, Result, Uuid, Value};

/// The transaction of a call context: begun by its first statement, on the store of that statement.
#[derive(Default)]
pub(crate) struct TxScope {
    state: Mutex<State>,
    /// The id of the first event of the transaction.
    first_event: parking_lot::Mutex<Option<Uuid>>,
    /// Functions that run after the commit, in the order in which they were added.
    after_commit: parking_lot::Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// The address of the store on which the transaction has begun; 0 before it has begun.
    store: AtomicUsize,
    /// Whether an operation failed after a part of it was written, so that the transaction must be
    /// rolled back.
    doomed: AtomicBool,
    lock_wait: LockWait,
}

#[derive(Default)]
enum State {
    #[default]
    NotBegun,
    Open(Arc<dyn Store>, Box<dyn Transaction>),
    Ended,
}

impl std::fmt::Debug for TxScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxScope").finish_non_exhaustive()
    }
}

impl TxScope {
    /// Creates a transaction that has not begun.
    pub(crate) fn new(lock_wait: LockWait) -> Self {
        Self {
            lock_wait,
            ..Self::default()
        }
    }

    /// Whether the transaction has begun on a store.
    pub(crate) fn is_open_on(&self, store: &Arc<dyn Store>) -> bool {
        self.store.load(Ordering::Acquire) == Arc::as_ptr(store).cast::<()>().addr()
    }

    /// Runs a statement within the transaction.
    ///
    /// # Errors
    /// The errors of the statement; `internal` for another store, and after the end of the
    /// transaction.
    pub(crate) async fn run(
        &self,
        store: &Arc<dyn Store>,
        statement: &Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let mut state = self.state.lock().await;
        if let State::NotBegun = *state {
            *state = State::Open(Arc::clone(store), store.begin_with(self.lock_wait).await?);
            self.store
                .store(Arc::as_ptr(store).cast::<()>().addr(), Ordering::Release);
        }
        match &mut *state {
            State::Open(of, transaction) if Arc::ptr_eq(of, store) => {
                transaction.run(statement, args, rows).await
            }
            State::Open(of, _) => Err(Error::internal(format!(
                "a transaction on store `{}` cannot use store `{}`",
                of.name(),
                store.name()
            ))),
            State::NotBegun | State::Ended => Err(Error::internal(
                "the transaction has ended: its context cannot be used any more",
            )),
        }
    }

    /// Takes an advisory lock and holds it until the end of the transaction, which must have begun.
    pub(crate) async fn take_advisory_lock(&self, key: i64) -> Result<()> {
        match &mut *self.state.lock().await {
            State::Open(_, transaction) => transaction.take_advisory_lock(key).await,
            State::NotBegun => Err(Error::internal(
                "the transaction has not begun: run a statement before taking a lock",
            )),
            State::Ended => Err(Error::internal(
                "the transaction has ended: its context cannot be used any more",
            )),
        }
    }

    /// Marks the transaction as one that must be rolled back, because an operation failed after a
    /// part of it was written.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Commits, then runs the functions of `after_commit`. If no statement has run, there is
    /// nothing to commit, and only these functions run.
    pub(crate) async fn commit(&self) -> Result<()> {
        if self.doomed.load(Ordering::Acquire) {
            self.rollback().await;
            return Err(Error::new(
                Code::Conflict,
                "A part of the transaction was refused, so the whole transaction was rolled back",
            ));
        }
        match std::mem::replace(&mut *self.state.lock().await, State::Ended) {
            State::Open(_, transaction) => transaction.commit().await?,
            State::NotBegun | State::Ended => {}
        }
        let after_commit = std::mem::take(&mut *self.after_commit.lock());
        for work in after_commit {
            // The records are stored: a panic must not turn the call into an error.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("work after a commit panicked");
            }
        }
        Ok(())
    }

    /// Runs `work` after the commit. It does not run after a rollback, or if it is added after the
    /// end of the transaction.
    pub(crate) fn after_commit(&self, work: Box<dyn FnOnce() + Send>) {
        self.after_commit.lock().push(work);
    }

    /// Stores the id of the first event of the transaction; later ids are ignored. After the
    /// commit, the response contains this id.
    pub(crate) fn store_first_event(&self, id: Uuid) {
        self.first_event.lock().get_or_insert(id);
    }

    /// The id of the first event of the transaction so far.
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        self.first_event.lock().clone()
    }

    /// Rolls back.
    pub(crate) async fn rollback(&self) {
        if let State::Open(_, transaction) =
            std::mem::replace(&mut *self.state.lock().await, State::Ended)
        {
            transaction.rollback().await;
        }
    }
}
