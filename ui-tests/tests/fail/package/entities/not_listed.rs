#![deny(dead_code)]

use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Pot {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
const VIEW: Operation<Pot>;

// No package lists it, and no code calls it.
#[operation(kind = "increment", field = views, by = -1)]
const FORGET: Operation<Pot>;

#[route(entity = Pot, method = "GET", path = "all.txt")]
async fn all() -> Result<String> {
    Ok(String::new())
}

static POTS: Package = package!(name = "pots", entities = [entity(Pot, [VIEW])]);

fn main() {
    assert_eq!(POTS.name, "pots");
}
