use linchpin::prelude::*;

#[entity(index(board, desc(pinned), desc(ranked_at)), index(board, kind, score), routes(auth = none))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    pub kind: String,
    #[field(default = false)]
    pub pinned: bool,
    pub ranked_at: Option<Timestamp>,
    #[field(default = 0)]
    pub score: i64,
}

#[operation(
    kind = "lookup", returns = "many", fields(board = param(board)),
    sorts(new(desc(pinned), desc(ranked_at))),
)]
pub const ACT: Operation<Topic>;

#[operation(
    kind = "lookup", returns = "many", fields(board = param(board)), strict_params,
    filter = (kind == param(kind)), optional_params(kind),
    sorts(best(desc(score))),
)]
pub const BEST: Operation<Topic>;

fn main() {}
