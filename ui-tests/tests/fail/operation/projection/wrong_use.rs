use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub slug: String,
}

#[entity(routes(auth = none))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[projection(Note)]
pub struct NoteCard {
    pub id: String,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(output = NoteCard))]
pub const OTHER: Operation<Post>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(output = "NoteCard"))]
pub const TEXT: Operation<Post>;

#[operation(kind = "exists", fields(slug = param(slug)), route(output = NoteCard))]
pub const TAKEN: Operation<Post>;

fn main() {}
