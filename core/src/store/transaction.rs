//! Statements that take effect together.

use std::sync::Arc;

use super::{Rows, Statement};
use crate::{BoxFuture, Result, Value};

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
