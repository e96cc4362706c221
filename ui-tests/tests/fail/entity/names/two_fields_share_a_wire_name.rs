use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub a_b: String,
    #[allow(non_snake_case)]
    pub aB: String,
}

fn main() {}
