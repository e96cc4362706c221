//! The record behind a counter.

use linchpin::prelude::*;

/// What is left of a window. Counting down makes the store itself refuse the attempt after the last: the field cannot go below
/// zero, whatever the limit is.
#[entity(namespace = "auth", ttl(window_end), version(required_on_write = false), routes(disabled))]
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// A MAC of what is counted: no identifier or address stands in the store.
    #[field(primary)]
    pub(crate) id: String,
    #[field(range = 0..)]
    pub(crate) left: i64,
    pub(crate) window_end: Option<Timestamp>,
}

/// Counts an attempt.
#[operation(kind = "increment", field = left, by = -1, route(disabled))]
pub(crate) const TAKE: Operation<Counter>;

/// Uncounts one, in the window in which it was counted.
#[operation(kind = "increment", field = left, by = 1, match(id = param(id), window_end = param(window_end)), route(disabled))]
pub(crate) const GIVE_BACK: Operation<Counter>;

/// Removes a window in which nothing is counted any more, so that the next one begins with what it counts.
#[operation(
    kind = "consume",
    filter = (id == param(id) && left >= param(max) && window_end == param(window_end)),
    returns = "boolean",
    route(disabled),
)]
pub(crate) const END_EMPTY: Operation<Counter>;
