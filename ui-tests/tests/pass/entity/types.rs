//! Valid types of fields, similar to the mistakes in `fail/entity/struct` and
//! `fail/operation/transition/value_of_another_type`.

use std::collections::BTreeMap;

use linchpin::prelude::*;

/// An enum with the name of a type of std.
#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Instant {
    Now,
    Later,
}

#[derive(Clone, Debug, Embedded)]
pub struct Line {
    pub id: String,
}

pub type Money = i64;
pub type Due = Option<Timestamp>;

pub const LIMIT: i64 = 3;
pub const FIRST: Instant = Instant::Now;

#[entity(index(price), routes(auth = none))]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = FIRST)]
    pub at: Instant,
    pub next: Option<Instant>,
    #[field(default = 3)]
    pub price: Money,
    #[field(default = LIMIT)]
    pub worth: Option<i64>,
    pub due: Due,
    pub lines: Vec<Line>,
    pub labels: Vec<String>,
    pub ratings: Json<Vec<i64>>,
    pub pair: Option<Json<(i64, String)>>,
    pub by_day: Json<BTreeMap<String, u32>>,
}

#[operation(
    kind = "lookup",
    fields(at = param(at), due = param(due)),
    filter = (next == Instant::Later && worth > LIMIT && price.one_of([1, LIMIT]) || next == param(at2)),
    returns = "many"
)]
pub const FOUND: Operation<Ticket>;

#[operation(kind = "transition", field = next, from = Instant::Now, to = Instant::Later)]
pub const MOVE: Operation<Ticket>;

pub static TICKETS: Package =
    package!(name = "tickets", entities = [entity(Ticket, [FOUND, MOVE])]);

/// The argument of a method has the type of the field, or converts into it.
pub async fn found(tickets: &TicketAdapter, cx: &Cx) -> Result<usize> {
    let page = tickets
        .found(cx, Instant::Now, None, FIRST, PageArgs::default())
        .await?;
    Ok(page.items.len())
}
