use linchpin::prelude::*;

#[entity(routes(list(rols = ["admin"])))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
