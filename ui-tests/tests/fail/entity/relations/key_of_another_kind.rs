use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(author: User, key = flag))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub flag: bool,
}

fn main() {}
