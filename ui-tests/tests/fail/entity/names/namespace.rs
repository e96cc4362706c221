use linchpin::prelude::*;

#[entity(namespace = "My Blog")]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
