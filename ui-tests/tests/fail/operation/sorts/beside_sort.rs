use linchpin::prelude::*;

#[entity(index(board, desc(pinned), desc(ranked_at)), index(score, title), routes(auth = none))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    #[field(default = false)]
    pub pinned: bool,
    pub ranked_at: Option<Timestamp>,
    #[field(default = 0)]
    pub score: i64,
    pub title: String,
    pub meta: serde_json::Value,
    #[field(private, default = "")]
    pub secret: String,
}

#[operation(
    kind = "lookup", returns = "many", fields(board = param(board)), strict_params,
    sort = desc(score),
    sorts(new(desc(pinned), desc(ranked_at))),
)]
pub const ACT: Operation<Topic>;

fn main() {}
