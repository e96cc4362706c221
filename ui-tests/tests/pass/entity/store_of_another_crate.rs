//! The macro accepts the name of a store that another crate defines. Start-up checks the
//! capabilities of that store.
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
fn the_descriptor_lists_both_stores() {
    assert_eq!(<Counter as Entity>::DESC.stores, ["toy", "sqlite"]);
}
