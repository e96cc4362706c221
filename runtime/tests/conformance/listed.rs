//! Lists in orders of several fields, with names and numbers for their pages.
#![allow(missing_docs, dead_code)] // a fixture, as beside it

use linchpin::prelude::*;

/// A tenant's or everybody's, in an order with nulls and turns; deleted softly.
#[entity(
    namespace = "diff",
    tenant(tenant_id, optional, anonymous_read),
    soft_delete(deleted_at),
    index(board, desc(pinned), desc(ranked_at)),
    index(board, desc(score), title),
    index(desc(pinned), ranked_at),
    sort(desc(pinned), ranked_at),
    pagination(default = 2, max = 200),
    routes(list(auth = none, paging = "page")),
)]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    #[field(one_of("a", "b"), default = "a")]
    pub board: String,
    #[field(default = false)]
    pub pinned: bool,
    pub ranked_at: Option<Timestamp>,
    #[field(default = 0, range = ..=3)]
    pub score: i64,
    pub title: Option<String>,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now)]
    pub made_at: Timestamp,
}

#[operation(
    kind = "lookup",
    fields(board = param(board)),
    filter = (made_at <= now()),
    returns = "many",
    paginate,
    sorts(new(desc(pinned), desc(ranked_at)), top(desc(score), title)),
    route(auth = none),
)]
pub const TOPICS_OF: Operation<Topic>;

#[operation(kind = "lookup", fields(board = param(board)), returns = "many", limit = 3, paginate = "page", route(method = "POST"))]
pub const TOPIC_PAGES: Operation<Topic>;
