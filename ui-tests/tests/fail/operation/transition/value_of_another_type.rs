use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Open, Done }

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Other { Open, Done }

pub const LIMIT: &str = "3";
pub const NOBODY: Option<i64> = None;

#[entity(routes(auth = none))]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = Other::Open)]
    pub status: Status,
    #[field(default = 0)]
    pub votes: i64,
    pub worth: Option<i64>,
}

#[operation(kind = "lookup", fields(title = param(title)), filter = (status == Other::Open), returns = "many")]
pub const OTHERS: Operation<Ticket>;

#[operation(kind = "lookup", fields(title = param(title)), filter = (status == "open"), returns = "many")]
pub const TEXT: Operation<Ticket>;

#[operation(kind = "lookup", fields(title = param(title)), filter = (votes > LIMIT), returns = "many")]
pub const MANY: Operation<Ticket>;

#[operation(kind = "lookup", fields(title = param(title)), filter = (worth == NOBODY), returns = "many")]
pub const WORTH: Operation<Ticket>;

#[operation(kind = "transition", field = status, from = Status::Open, to = Other::Done)]
pub const CLOSE: Operation<Ticket>;

fn main() {}
