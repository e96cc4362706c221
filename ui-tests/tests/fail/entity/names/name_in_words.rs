use linchpin::prelude::*;

#[entity(name = "blog post")]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

#[entity(name = "blog.post!")]
pub struct Note {
    #[field(primary)]
    pub id: String,
}

#[entity(name = "")]
pub struct Room {
    #[field(primary)]
    pub id: String,
}

fn main() {}
