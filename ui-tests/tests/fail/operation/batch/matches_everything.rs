use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Live,
}

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Currency {
    EUR,
    USD,
    CHF,
}

#[entity(visible(open || owner_id == ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub open: bool,
    pub pinned: bool,
    pub status: Status,
    pub currency: Currency,
    #[field(range = 0..=100)]
    pub score: i64,
    #[field(length = 1..=5)]
    pub code: String,
    pub due_at: Option<Timestamp>,
}

#[operation(kind = "batch", action = "delete", filter = (pinned || !pinned))]
pub const BOTH: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (due_at.is_none() || due_at.is_some()))]
pub const NULL_OR_NOT: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (status != Status::Draft || status != crate::Status::Live))]
pub const NOT_BOTH: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (status.one_of([Status::Draft, Status::Live])))]
pub const ALL_VARIANTS: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (currency != Currency::EUR || currency != Currency::USD))]
pub const IN_CAPITALS: Operation<Note>;

#[operation(kind = "batch", action = "update", filter = (score >= 0), set(pinned = false))]
pub const IN_RANGE: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (code > ""))]
pub const LONG_ENOUGH: Operation<Note>;

#[operation(kind = "consume", filter = (score > param(least) || score <= param(least)), returns = "boolean")]
pub const WHATEVER_IS_GIVEN: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = ((pinned || !pinned) && code == param(code)), optional_params(code))]
pub const NOTHING_GIVEN: Operation<Note>;

#[entity(visible(open || !open), action("write", score < 5 || score > 4))]
#[derive(Clone, Debug)]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
    pub open: bool,
    pub score: i64,
}

fn main() {}
