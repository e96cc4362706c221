//! Statements that take effect together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Mutex, watch};

use super::{Rows, Statement, Store};
use crate::resource::BoxFuture;
use crate::{Code, Error, Result, Uuid, Value};

/// How long a transaction waits for what others hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// For as long as a statement may take: nobody can run it again.
    #[default]
    Once,
    /// For a moment. Then it gives way, and is begun again.
    Brief,
    /// For a while, as one that has given way before. Others go past it.
    Long,
}

/// A conversation with a store in which everything happens or nothing. Dropping it undoes it.
pub trait Transaction: Send {
    /// Runs a statement of the store. One that is refused undoes itself alone; the transaction goes on.
    ///
    /// # Errors
    /// Those of the statement; `unavailable` when the transaction is lost.
    fn run<'a>(&'a mut self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> BoxFuture<'a, Result<Rows>>;

    /// Waits until no other transaction that has taken the same turn is under way, and keeps others from taking it until this one has ended.
    ///
    /// # Errors
    /// `unavailable` when the transaction is lost.
    fn take_turn(&mut self, turn: i64) -> BoxFuture<'_, Result<()>> {
        // The only transaction that writes has all turns.
        let _ = turn;
        Box::pin(async { Ok(()) })
    }

    /// Makes it last.
    ///
    /// # Errors
    /// `unavailable` when it could not be made to last; then nothing of it has happened.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Undoes it and waits until that is done: whoever is told that nothing has happened finds it so, and nothing held any more.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()>
    where
        Self: 'static,
    {
        Box::pin(async move { drop(self) })
    }
}

/// The transaction of a call context: begun by its first statement, on the store of that statement.
#[derive(Default)]
pub(crate) struct TxScope {
    state: Mutex<State>,
    /// The first event of the transaction, and who is to be woken when it is committed.
    emitted: parking_lot::Mutex<Option<(Uuid, watch::Sender<()>)>>,
    /// Where the store is that it has begun on; 0 before.
    store: AtomicUsize,
    /// Whether something of it failed halfway, so that it must not last.
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
    /// One that has not begun.
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Whether it has begun on a store.
    pub(crate) fn is_open_on(&self, store: &Arc<dyn Store>) -> bool {
        self.store.load(Ordering::Acquire) == Arc::as_ptr(store).cast::<()>().addr()
    }

    /// Runs a statement within the transaction.
    ///
    /// # Errors
    /// Those of the statement; `internal` for a second store or after the end.
    pub(crate) async fn run(&self, store: &Arc<dyn Store>, statement: &Arc<Statement>, args: Vec<Value>, rows: Rows) -> Result<Rows> {
        let mut state = self.state.lock().await;
        if let State::Fresh = *state {
            *state = State::Open(Arc::clone(store), store.begin_with(self.patience).await?);
            self.store.store(Arc::as_ptr(store).cast::<()>().addr(), Ordering::Release);
        }
        match &mut *state {
            State::Open(of, transaction) if Arc::ptr_eq(of, store) => transaction.run(statement, args, rows).await,
            State::Open(of, _) => {
                Err(Error::internal(format!("a transaction on store `{}` cannot reach into store `{}`", of.name(), store.name())))
            }
            State::Fresh | State::Ended => Err(Error::internal("the transaction has ended: its context cannot be used any more")),
        }
    }

    /// Takes a turn, which it holds to its end. It has been begun.
    pub(crate) async fn take_turn(&self, turn: i64) -> Result<()> {
        match &mut *self.state.lock().await {
            State::Open(_, transaction) => transaction.take_turn(turn).await,
            State::Fresh | State::Ended => Err(Error::internal("the transaction has ended: its context cannot be used any more")),
        }
    }

    /// Something was refused of which a part had been done: none of the transaction can last any more.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Makes everything last; nothing to do when there was no statement.
    pub(crate) async fn commit(&self) -> Result<()> {
        if self.doomed.load(Ordering::Acquire) {
            self.rollback().await;
            return Err(Error::new(Code::Conflict, "A part of the transaction was refused, so nothing of it has happened"));
        }
        match std::mem::replace(&mut *self.state.lock().await, State::Ended) {
            State::Open(_, transaction) => transaction.commit().await?,
            State::Fresh | State::Ended => {}
        }
        if let Some((_, wake)) = &*self.emitted.lock() {
            wake.send_replace(());
        }
        Ok(())
    }

    /// Notes an event that happens when the transaction is committed.
    pub(crate) fn note_event(&self, id: Uuid, wake: &watch::Sender<()>) {
        self.emitted.lock().get_or_insert_with(|| (id, wake.clone()));
    }

    /// Its first event.
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        self.emitted.lock().as_ref().map(|(id, _)| id.clone())
    }

    /// Undoes everything.
    pub(crate) async fn rollback(&self) {
        if let State::Open(_, transaction) = std::mem::replace(&mut *self.state.lock().await, State::Ended) {
            transaction.rollback().await;
        }
    }
}
