use linchpin::prelude::*;

#[entity(search(provider = "words", fields(title = 2)), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub body: String,
}

#[operation(kind = "search", fields(title, body))]
pub const FIND: Operation<Post>;

fn main() {}
