//! The interface that a connection needs from the rest of its node.

use std::sync::Arc;

use linchpin::{BoxFuture, Result};

use super::Connection;
use crate::protocol::{EventCall, Position, ResetReason, ServerFrame};

/// The caller that a connection acts for, and the time until which it may act for this caller.
pub type Identity = linchpin::http::Credential;

/// The result of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The room is joined. The client sent no position, or had joined the room before.
    Fresh,
    /// The room is joined, and this many missed frames are in the queue.
    Recovered(u64),
    /// The room is joined at its newest position, because the position of the client is not usable.
    Reset(ResetReason),
}

/// The result of a client's event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result as JSON; `null` if there is none.
    pub result: String,
    /// Whether it is the stored result of an earlier event with the same key.
    pub replayed: bool,
}

/// The rooms and sessions of a node, as its connections use them.
///
/// A connection calls the methods one after the other, in the order of the client's frames. It
/// drops the future of a call that takes longer than
/// [`Limits::handler_time`](super::Limits::handler_time). A dropped call must leave the state
/// consistent.
pub trait Hub: Send + Sync + 'static {
    /// Checks the token of a frame `auth`. Returns `None` for a bad one.
    ///
    /// # Errors
    /// If it cannot be checked now.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Identity>>>;

    /// Called after the connection got its [`identity`](Connection::identity), or after a refresh
    /// extended it. The hub checks the subscriptions of the connection again.
    fn bound<'a>(&'a self, connection: &'a Arc<Connection>) -> BoxFuture<'a, ()>;

    /// Joins a room, and pushes the frame `subscribed` and the replayed frames.
    ///
    /// # Errors
    /// The connection answers `subscribe_denied` with the code of the error.
    fn subscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
        since: Option<&'a Position>,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Joined>>;

    /// Leaves a room, if the connection has joined it. The connection answers `unsubscribed`.
    fn unsubscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
    ) -> BoxFuture<'a, ()>;

    /// Executes a client's event. The connection answers with the result.
    ///
    /// # Errors
    /// The connection answers with the error.
    fn event<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        call: &'a EventCall,
    ) -> BoxFuture<'a, Result<Outcome>>;

    /// Returns the frame `presence` of a room.
    ///
    /// # Errors
    /// The connection answers `ws:error` with the error.
    fn presence<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ServerFrame>>;

    /// Called when the connection has ended: ends its subscriptions and frees its slot. It is
    /// called exactly once for each connection, even if its task is dropped.
    fn ended(&self, connection: &Arc<Connection>);
}
