use linchpin::prelude::*;

#[entity(routes(timeout = "0s"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
