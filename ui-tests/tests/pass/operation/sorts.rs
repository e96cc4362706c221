//! Valid named sorts that are similar to the mistakes in `fail/operation/sorts`.
use linchpin::prelude::*;

// The default sort with all directions reversed; a field called `page` in an entity without
// numbered pages.
#[entity(
    index(board, desc(pinned), desc(ranked_at)),
    index(pinned, ranked_at),
    index(score, desc(id)),
    index(page),
    sort(desc(pinned), desc(ranked_at)),
    routes(auth = none)
)]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    #[field(default = false)]
    pub pinned: bool,
    pub ranked_at: Option<Timestamp>,
    #[field(default = 0)]
    pub score: i64,
    pub page: i64,
}

// Sorts by indexes with and without the field `board`, ascending and descending; the primary key
// has its own index.
#[operation(
    kind = "lookup",
    returns = "many",
    fields(board = param(board)),
    strict_params,
    sorts(new(desc(pinned), desc(ranked_at)), old(asc(pinned), asc(ranked_at)), rising(score, desc(id)), falling(desc(score), asc(id)), made(desc(id))),
)]
pub const OF_BOARD: Operation<Topic>;

// Calls may omit the parameter, so each sort also has an index without its field.
#[operation(
    kind = "lookup",
    returns = "many",
    fields(board = param(board)),
    sorts(old(asc(pinned), asc(ranked_at)), rising(score, desc(id))),
)]
pub const ON_ANY: Operation<Topic>;

// A parameter with a default always has a value.
#[operation(
    kind = "lookup",
    returns = "many",
    fields(board = param(board, default = "a")),
    sorts(new(desc(pinned), desc(ranked_at))),
)]
pub const ON_A_FIRST: Operation<Topic>;

// The filter fixes the first field of the index to one value.
#[operation(
    kind = "lookup",
    returns = "many",
    fields(page = param(page)),
    filter = (board == "a" && score > 3),
    sorts(latest(desc(pinned), desc(ranked_at))),
)]
pub const ON_A: Operation<Topic>;

#[operation(kind = "lookup", returns = "many", fields(board = param(sort)), paginate = true)]
pub const PLAIN: Operation<Topic>;

#[operation(kind = "lookup", returns = "many", fields(board = param(limits)), paginate = "page")]
pub const BY_NUMBER: Operation<Topic>;

#[entity(index(title), sort(title), routes(auth = none, list(paging = "page")))]
pub struct Sheet {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub page: Option<serde_json::Value>,
}
