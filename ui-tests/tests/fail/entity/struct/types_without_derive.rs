use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Status { Open, Done }

#[derive(Clone, Debug)]
pub struct Line {
    pub id: String,
}

// One error for each field: its default, its index and its operations do not repeat it.

#[entity(index(status), routes(auth = none))]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Open)]
    pub status: Status,
    pub last: Option<Status>,
    pub lines: Vec<Line>,
}

#[operation(kind = "transition", field = status, from = Status::Open, to = Status::Done)]
pub const CLOSE: Operation<Ticket>;

#[operation(kind = "lookup", fields(status = param(status)), filter = (last == Status::Done), returns = "many")]
pub const OF_STATUS: Operation<Ticket>;

pub static TICKETS: Package = package!(name = "tickets", entities = [entity(Ticket, [CLOSE, OF_STATUS])]);

fn main() {}
