//! A store of another crate is named without a check; its grants are checked when the app starts.
use linchpin::prelude::*;

#[entity(routes(auth = none), stores(toy, sqlite), unique(name), version)]
pub struct Counter {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    #[field(default = 0)]
    pub value: i64,
}

#[operation(kind = "increment", field = value)]
pub const BUMP: Operation<Counter>;

pub static COUNTERS: Package = package!(name = "counters", entities = [entity(Counter, [BUMP])]);

#[test]
fn the_declarations_work() {
    assert_eq!(<Counter as Entity>::DESC.stores, ["toy", "sqlite"]);
}
