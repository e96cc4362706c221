use linchpin::prelude::*;

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

pub static EMPTY: Package = package!(name = "empty", entities = [entity(Post)], middleware = []);
pub static TWICE: Package = package!(name = "twice", entities = [], middleware = ["audit", "audit"]);
pub static BARE: Package = package!(name = "bare", entities = [], middleware = "audit");
pub static CALLED: Package = package!(name = "called", entities = [], middleware = [audit()]);

fn main() {}
