use linchpin::prelude::*;

#[entity(unique(email, email))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub email: String,
}

fn main() {}
