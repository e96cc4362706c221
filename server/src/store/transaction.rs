//! The transaction of a call context.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Mutex;

use super::{Patience, Rows, Statement, Store, Transaction};
use crate::{Code, Error, Result, Uuid, Value};

/// The transaction of a call context: begun by its first statement, on the store of that statement.
#[derive(Default)]
pub(crate) struct TxScope {
    state: Mutex<State>,
    /// The first event of the transaction.
    emitted: parking_lot::Mutex<Option<Uuid>>,
    /// Functions that run after the commit, in the order in which they were added.
    after_commit: parking_lot::Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// The address of the store on which it has begun; 0 before.
    store: AtomicUsize,
    /// Whether a part of it failed halfway, so that it must be rolled back.
    doomed: AtomicBool,
    patience: Patience,
}

#[derive(Default)]
enum State {
    #[default]
    Fresh,
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
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            patience,
            ..Self::default()
        }
    }

    /// Whether it has begun on a store.
    pub(crate) fn is_open_on(&self, store: &Arc<dyn Store>) -> bool {
        self.store.load(Ordering::Acquire) == Arc::as_ptr(store).cast::<()>().addr()
    }

    /// Runs a statement within the transaction.
    ///
    /// # Errors
    /// Those of the statement; `internal` for a second store or after the end.
    pub(crate) async fn run(
        &self,
        store: &Arc<dyn Store>,
        statement: &Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let mut state = self.state.lock().await;
        if let State::Fresh = *state {
            *state = State::Open(Arc::clone(store), store.begin_with(self.patience).await?);
            self.store
                .store(Arc::as_ptr(store).cast::<()>().addr(), Ordering::Release);
        }
        match &mut *state {
            State::Open(of, transaction) if Arc::ptr_eq(of, store) => {
                transaction.run(statement, args, rows).await
            }
            State::Open(of, _) => Err(Error::internal(format!(
                "a transaction on store `{}` cannot reach into store `{}`",
                of.name(),
                store.name()
            ))),
            State::Fresh | State::Ended => Err(Error::internal(
                "the transaction has ended: its context cannot be used any more",
            )),
        }
    }

    /// Takes a turn and holds it until the end of the transaction, which has begun.
    pub(crate) async fn take_turn(&self, turn: i64) -> Result<()> {
        match &mut *self.state.lock().await {
            State::Open(_, transaction) => transaction.take_turn(turn).await,
            State::Fresh | State::Ended => Err(Error::internal(
                "the transaction has ended: its context cannot be used any more",
            )),
        }
    }

    /// An operation failed after a part of it was done: the whole transaction must be rolled back.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Commits; does nothing if there was no statement.
    pub(crate) async fn commit(&self) -> Result<()> {
        if self.doomed.load(Ordering::Acquire) {
            self.rollback().await;
            return Err(Error::new(
                Code::Conflict,
                "A part of the transaction was refused, so nothing of it has happened",
            ));
        }
        match std::mem::replace(&mut *self.state.lock().await, State::Ended) {
            State::Open(_, transaction) => transaction.commit().await?,
            State::Fresh | State::Ended => {}
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

    /// Runs `work` after the commit. A rollback drops it, and so does a transaction that has ended.
    pub(crate) fn after_commit(&self, work: Box<dyn FnOnce() + Send>) {
        self.after_commit.lock().push(work);
    }

    /// Notes an event, which takes effect on commit.
    pub(crate) fn note_event(&self, id: Uuid) {
        self.emitted.lock().get_or_insert(id);
    }

    /// Its first event.
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        self.emitted.lock().clone()
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
