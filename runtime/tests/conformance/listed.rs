//! Lists in orders of several fields, with names and numbers for their pages.
#![allow(missing_docs, dead_code)] // a fixture, as beside it

use linchpin::prelude::*;

/// Where it is found.
fn place(topic: &Topic) -> Option<String> {
    let title = topic.title.as_ref()?;
    Some(format!("{}/{}/{}", topic.tenant_id.as_deref().unwrap_or_default(), topic.board, title.to_lowercase()))
}

/// Of everything there is.
fn weight(topic: &Topic) -> i64 {
    let there = i64::from(topic.deleted_at.is_none());
    topic.score.clamp(-1000, 1000) * 100 + 10 * there + i64::from(topic.pinned) + topic.tags.len() as i64 * 1000
}

/// A tenant's or everybody's, in an order with nulls and turns; deleted softly.
#[entity(
    namespace = "diff",
    tenant(tenant_id, optional, anonymous_read),
    soft_delete(deleted_at),
    index(board, desc(pinned), desc(ranked_at)),
    index(board, desc(score), title),
    unique(place),
    unique(code),
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
    pub code: Option<String>,
    pub tags: Vec<String>,
    #[field(computed(place, from(board, title, tenant_id)), filterable)]
    pub place: Option<String>,
    #[field(computed = weight, filterable, sortable)]
    pub weight: i64,
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

#[operation(kind = "increment", field = score)]
pub const TOPIC_UP: Operation<Topic>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TOPIC_TAG: Operation<Topic>;

#[operation(kind = "transition", field = pinned, from = false, to = true, set(title = param(title)))]
pub const TOPIC_PIN: Operation<Topic>;

#[operation(kind = "batch", action = "update", filter = (score >= param(least) || weight >= param(weight)), set(board = "b", pinned = false))]
pub const TOPICS_MOVE: Operation<Topic>;

#[operation(kind = "upsert", match(code), set(title, score, board), returns = "created")]
pub const TOPIC_PUT: Operation<Topic>;

#[operation(kind = "restore", route(roles = ["editor"]))]
pub const TOPIC_BACK: Operation<Topic>;

#[operation(kind = "lookup", fields(place = param(place)), returns = "one", route(auth = none))]
pub const TOPIC_AT: Operation<Topic>;
