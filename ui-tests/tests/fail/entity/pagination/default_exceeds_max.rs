use linchpin::prelude::*;

#[entity(pagination(default = 300, max = 200))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
