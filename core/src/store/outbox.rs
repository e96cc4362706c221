//! Where events wait for those who listen.

use crate::BoxFuture;
use crate::Result;
use crate::Timestamp;
use crate::event::Entry;

/// The outbox of a store: what statements with a recording have written, in commit order per record.
///
/// A store writes the entries of [`Rows::entries`](super::Rows) in the transaction of the statement: both last, or neither.
pub trait Outbox: Send + Sync {
    /// Makes what is missing. Consumers that are new begin with what is written from now on.
    ///
    /// # Errors
    /// When what is there cannot serve as an outbox.
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>>;

    /// Whether a consumer of this name has been here before, so that it goes on where it stopped.
    ///
    /// # Errors
    /// When the store cannot answer.
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// The first events that a consumer has neither settled nor been given, in order, each with its place.
    ///
    /// `given` holds the places it was given since it settled, as they were given. Nothing waits where another process delivers
    /// to this consumer.
    ///
    /// # Errors
    /// When the store cannot answer.
    fn waiting<'a>(&'a self, consumer: &'a str, given: &'a [i64], limit: usize) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>>;

    /// Notes that a consumer has had these: they are not given to it again, whatever happens. As they were given, with all
    /// that was given to it before.
    ///
    /// # Errors
    /// When that could not be made to last.
    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>>;

    /// Removes at most `limit` events that these consumers have all settled and that happened before an instant; says how many.
    ///
    /// # Errors
    /// When the store cannot answer.
    fn prune<'a>(&'a self, consumers: &'a [&'a str], before: Timestamp, limit: usize) -> BoxFuture<'a, Result<usize>>;
}
