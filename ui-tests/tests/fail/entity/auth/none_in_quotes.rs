use linchpin::prelude::*;

#[entity(routes(auth = "none"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
