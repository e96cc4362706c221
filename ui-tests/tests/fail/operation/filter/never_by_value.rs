use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Live,
}

#[entity(visible(status == Status::Live || owner_id == ctx(actor.id) && status == crate::Status::Live))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub status: Status,
    pub state: Status,
    pub rating: f64,
    #[field(range = 0..=100)]
    pub score: i64,
    #[field(length = 1..=5)]
    pub code: String,
    pub pinned: bool,
}

#[operation(kind = "lookup", returns = "many", fields(owner_id = param(owner)), filter = (rating == 5 && rating != 5.0))]
pub const NUMBERS: Operation<Post>;

#[operation(kind = "lookup", returns = "many", fields(state = Status::Draft), filter = (pinned && state != crate::Status::Draft))]
pub const FIELDS: Operation<Post>;

#[operation(kind = "lookup", returns = "many", fields(status = Status::Draft))]
pub const HIDDEN: Operation<Post>;

#[operation(kind = "lookup", returns = "many", fields(owner_id = param(owner)), filter = (pinned || status == Status::Draft))]
pub const HIDDEN_BRANCH: Operation<Post>;

#[operation(kind = "exists", fields(code = "a", pinned = true), check(pinned = false))]
pub const CHECK: Operation<Post>;

#[operation(kind = "aggregate", filter = (score > 100), compute(n = count()))]
pub const RANGE: Operation<Post>;

#[operation(kind = "aggregate", filter = (code == "abcdef"), compute(n = count()))]
pub const LENGTH: Operation<Post>;

#[operation(kind = "transition", field = state, from = Status::Draft, to = Status::Live, match(id = param(id), state = crate::Status::Live))]
pub const MATCH: Operation<Post>;

#[operation(kind = "increment", field = score, match(id = param(id), status = Status::Draft))]
pub const MATCH_HIDDEN: Operation<Post>;

#[operation(kind = "aggregate", filter = (state != Status::Draft && state != Status::Live), compute(n = count()))]
pub const NO_VARIANT: Operation<Post>;

fn main() {}
