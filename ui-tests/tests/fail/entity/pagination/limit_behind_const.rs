use linchpin::prelude::*;

const MAX: u32 = 20_000;

#[entity(pagination(max = MAX))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
