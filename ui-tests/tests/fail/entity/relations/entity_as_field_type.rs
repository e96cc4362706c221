use linchpin::prelude::*;

#[entity]
#[derive(Clone, Debug)]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author: User,
}

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub reader: Option<User>,
}

#[entity]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
    pub users: Vec<User>,
}

fn main() {}
