use linchpin::prelude::*;

#[entity(index(board, desc(pinned), desc(ranked_at)), routes(auth = none))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    #[field(default = false)]
    pub pinned: bool,
    pub ranked_at: Option<Timestamp>,
}

#[operation(
    kind = "lookup", returns = "many", fields(board = param(board)),
    sorts(new(desc(pinned), desc(ranked_at))),
)]
pub const ACT: Operation<Topic>;

fn main() {}
