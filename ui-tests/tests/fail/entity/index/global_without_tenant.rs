use linchpin::prelude::*;

#[entity(index(email, global))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub email: String,
}

fn main() {}
