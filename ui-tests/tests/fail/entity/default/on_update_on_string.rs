use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(on_update = now)]
    pub at: String,
}

fn main() {}
