//! The outbox: stored events that wait for their consumers.

use crate::BoxFuture;
use crate::Result;
use crate::Timestamp;
use crate::event::Entry;

/// The outbox of a store. It contains the events of statements, in commit order per record.
///
/// A store writes the entries of [`Rows::entries`](super::Rows) in the transaction of the
/// statement, so both are committed or neither.
pub trait Outbox: Send + Sync {
    /// Creates missing tables. A new consumer gets only later events.
    ///
    /// # Errors
    /// If a table cannot be created, or if an existing table has another form.
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>>;

    /// Whether the outbox knows a consumer of this name. A known consumer continues after its last
    /// event.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// Returns the first events that a consumer has neither settled nor received, in order. Each
    /// comes with its position.
    ///
    /// `given` lists the positions that the consumer received but did not settle, in the order of
    /// delivery. The result is empty if another process delivers to this consumer.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        given: &'a [i64],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>>;

    /// Stores that a consumer has processed these events, so they are not delivered to it again.
    /// `given` lists them in the order of delivery and includes all events delivered before.
    ///
    /// # Errors
    /// If the store cannot write it.
    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>>;

    /// Removes events before `before` that all these consumers have settled, at most `limit`.
    /// Returns the number of removed events.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>>;
}
