//! The record behind a task that must not be lost.

use linchpin::prelude::*;

/// A task that is still to be done.
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
    /// What is to be done, encrypted: it may hold a link or a code.
    pub(crate) sealed: String,
    /// How often it has been tried.
    #[field(default = 0)]
    pub(crate) attempts: i64,
    /// When it is tried next. While somebody is at it, the instant from which another may take
    /// over.
    pub(crate) due_at: Timestamp,
    /// When it is no longer worth doing: a code that has expired need not be sent.
    pub(crate) expires_at: Option<Timestamp>,
}
