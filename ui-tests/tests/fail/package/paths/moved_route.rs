use linchpin::prelude::*;

#[derive(Clone, Embedded)]
pub struct Note { pub id: String }

#[entity(routes(auth = none, get(path = "card/{id}")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub notes: Vec<Note>,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(path = "card/{slug}"))]
pub const CARD: Operation<Post>;

#[operation(kind = "collection", field = notes, operations(list), route(noted_list(path = "card/{id}")))]
pub const NOTED: Operation<Post>;

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [CARD, NOTED])]);

fn main() {}
