use linchpin::prelude::*;

#[entity(routes(auth = none, get(output = PostCard), list(output = NoteCard), create(output = Plain), delete(output = PostCard)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = 0)]
    pub views: i64,
    #[field(private)]
    pub hash: Option<String>,
}

#[entity(routes(auth = none))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[projection(Post)]
pub struct PostCard {
    pub id: String,
    pub title: String,
}

#[projection(Note)]
pub struct NoteCard {
    pub id: String,
}

pub struct Plain {
    pub id: String,
}

#[projection(Post)]
pub struct Wrong {
    pub titel: String,
    pub hash: Option<String>,
}

#[projection(Post)]
pub struct Typed {
    pub id: String,
    pub views: String,
}

#[projection]
pub struct Nobodys {
    pub id: String,
}

#[projection(Post)]
pub struct Empty {}

#[projection(Post)]
pub enum Shape {
    Card,
}

fn main() {}
