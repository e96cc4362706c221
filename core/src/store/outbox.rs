//! The outbox: stored events that wait for their consumers.

use std::sync::Arc;
use std::time::Duration;

use super::Numbers;
use crate::BoxFuture;
use crate::Result;
use crate::Timestamp;
use crate::event::{Entry, OutboxRow};

/// The outbox of a store. It contains the events of commits as rows with ascending numbers.
///
/// A store collects the entries of [`Rows::entries`](super::Rows) of all statements of a commit,
/// and writes those that are [stored](Entry::stored) as rows ([`StoredText::of`]) in the same
/// transaction, so the changes and their events are committed together or not at all. After the
/// commit it hands all entries to [`Committed`].
///
/// [`StoredText::of`]: crate::event::StoredText::of
pub trait Outbox: Send + Sync {
    /// Creates missing tables, unless there are no consumers, and sets the receiver of events after
    /// their commit. A new consumer gets only later events.
    ///
    /// # Errors
    /// If a table cannot be created, or if an existing table has another form.
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Whether the outbox knows a consumer of this name. A known consumer continues after its last
    /// event.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// Whether rows are numbered 1, 2, 3 … in the order of commits, without gaps. If so, a row that
    /// follows the last one can be delivered without a query.
    fn is_in_commit_order(&self) -> bool;

    /// Takes or renews the leadership of consumers for this process. Returns the fencing number of
    /// each consumer that this process leads; `None` for the others. The number grows whenever
    /// another process takes over. A consumer whose lease has ended, or whose process is known to
    /// have ended, gets a new leader.
    ///
    /// # Errors
    /// If the store cannot answer. Then the leases of this process expire.
    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>>;

    /// Gives up the leadership of these consumers, so that another process takes over at once.
    ///
    /// # Errors
    /// If the store cannot answer. Then the leases expire.
    fn resign<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>>;

    /// Returns the first rows that the consumer has not settled and that are not in `taken`, in
    /// order. Rows in `known` are returned as they are, and not read again.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        known: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>>;

    /// Stores that the lost rows were reported to a consumer, so [`waiting`](Self::waiting) does
    /// not report them again.
    ///
    /// # Errors
    /// If the store cannot write it.
    fn lost_reported<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>>;

    /// Stores that a consumer has processed these rows, so they are not delivered to it again.
    ///
    /// # Errors
    /// If the store cannot write it.
    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>>;

    /// Stores an event that a consumer failed to process, so that an operator can inspect it.
    /// Parking it again changes nothing.
    ///
    /// # Errors
    /// If the store cannot write it.
    fn park<'a>(&'a self, consumer: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>>;

    /// Removes rows of events before `before` that all these consumers have settled, at most
    /// `limit`, and parked events that were parked before `parked`. Returns the number of removed
    /// rows.
    ///
    /// # Errors
    /// If the store cannot answer.
    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>>;
}

/// Receives the events of commits of this process.
pub trait Committed: Send + Sync {
    /// Receives the rows of a commit: the stored rows with their numbers, and one row without a
    /// number for the events that are not stored. A store calls this right after the commit. If
    /// several commits changed the same record, the calls have the order of the commits. The
    /// implementation must return quickly and must never call the store.
    fn committed(&self, rows: Vec<Arc<OutboxRow>>);

    /// Reports that events which are not stored may be lost, because the end of their transaction
    /// is unknown.
    fn lost(&self, events: &[Entry]);
}

/// The rows that wait for a consumer.
#[derive(Debug, Default)]
pub struct Waiting {
    /// The rows in the order of their numbers.
    pub rows: Vec<Arc<OutboxRow>>,
    /// The rows that the consumer can never get. They are reported until
    /// [`lost_reported`](Outbox::lost_reported) is called, also to the next process that delivers
    /// to the consumer.
    pub lost: Option<Lost>,
}

/// Rows that were removed before a consumer had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many rows were removed, at least 1.
    pub count: u64,
    /// The number up to which the consumer gets no more rows; 0 if the store has skipped them
    /// already.
    pub until: i64,
}

/// An event that a consumer failed to process.
#[derive(Clone, Debug)]
pub struct Parked {
    /// The event.
    pub event: Entry,
    /// The last error, for the operator.
    pub error: String,
    /// The time at which it was parked.
    pub at: Timestamp,
}
