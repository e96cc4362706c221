use linchpin::prelude::*;

#[entity(routes(roles = [], get(roles = ["a", "a", ""]), list(roles = "admin"), delete = none))]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

fn main() {}
