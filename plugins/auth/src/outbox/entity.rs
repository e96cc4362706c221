//! The entity of queued tasks.

use linchpin::prelude::*;

/// A task that is not done yet.
#[entity(
    namespace = "auth",
    version,
    ttl(expires_at),
    index(due_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    #[field(primary)]
    pub(crate) id: String,
    /// The task, encrypted because it may contain a link or a code.
    pub(crate) sealed: String,
    /// Number of attempts so far.
    #[field(default = 0)]
    pub(crate) attempts: i64,
    /// Time of the next attempt. During an attempt, it is the end of the lease of this attempt;
    /// after that time, another process may take the task.
    pub(crate) due_at: Timestamp,
    /// When the task is dropped: an expired code need not be sent.
    pub(crate) expires_at: Option<Timestamp>,
}
