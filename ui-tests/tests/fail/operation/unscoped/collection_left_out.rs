use linchpin::prelude::*;

#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, list, get, update, delete)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub lines: Vec<Line>,
}

#[operation(kind = "collection", field = lines, operations(list, add, remove))]
pub const LINES: Operation<Post>;

fn main() {}
