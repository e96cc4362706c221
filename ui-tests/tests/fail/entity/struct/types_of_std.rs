use std::collections::BTreeMap;

use linchpin::prelude::*;

// One error for each field, even if options and operations use the field.

#[entity(index(count), routes(auth = none))]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub count: u32,
    pub size: Option<usize>,
    pub weight: f32,
    pub ratings: Vec<i64>,
    pub name: &'static str,
    pub labels: Vec<&'static str>,
    pub pair: (i64, String),
    pub by_day: BTreeMap<String, i64>,
    pub at: std::time::SystemTime,
}

#[operation(kind = "increment", field = count, by = 1)]
pub const COUNT: Operation<Ticket>;

#[operation(kind = "lookup", fields(count = param(count)), filter = (weight > 3.0 && name == "a"), returns = "many")]
pub const FOUND: Operation<Ticket>;

pub static TICKETS: Package = package!(name = "tickets", entities = [entity(Ticket, [COUNT, FOUND])]);

fn main() {
    let _: Option<BTreeMap<String, i64>> = None;
}
