use linchpin::prelude::*;

#[entity(path = "/news")]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
