use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(format = "emial")]
    pub email: String,
}

fn main() {}
