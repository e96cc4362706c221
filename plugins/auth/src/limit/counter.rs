//! The record of a rate counter.

use linchpin::prelude::*;

/// Number of attempts still allowed in this window.
///
/// The counter counts down, and the field cannot go below zero. So the store refuses the attempt
/// after the last one.
#[entity(
    namespace = "auth",
    ttl(window_end),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// A MAC of the counted identifier or address. The store does not contain the plain text.
    #[field(primary)]
    pub(crate) id: String,
    #[field(range = 0..)]
    pub(crate) left: i64,
    pub(crate) window_end: Option<Timestamp>,
}

/// Counts an attempt.
#[operation(kind = "increment", field = left, by = -1, route(disabled))]
pub(crate) const TAKE: Operation<Counter>;

/// Takes an attempt back in the window that counted it.
#[operation(kind = "increment", field = left, by = 1, match(id = param(id), window_end = param(window_end)), route(disabled))]
pub(crate) const GIVE_BACK: Operation<Counter>;

/// Deletes a counter with no counted attempts, so the next attempt starts a new window.
#[operation(
    kind = "consume",
    filter = (id == param(id) && left >= param(max) && window_end == param(window_end)),
    returns = "boolean",
    route(disabled),
)]
pub(crate) const END_EMPTY: Operation<Counter>;
