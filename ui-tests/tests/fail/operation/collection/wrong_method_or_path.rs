use linchpin::prelude::*;

#[derive(Clone, Embedded)]
pub struct Note { pub id: String, pub flag: bool }

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub notes: Vec<Note>,
}

#[operation(kind = "collection", field = notes, operations(list, add, remove), route(
    methods_list(method = "PUT"), methods_add(method = "GET"), methods_remove(methd = "POST"),
))]
pub const METHODS: Operation<Post>;

#[operation(kind = "collection", field = notes, operations(list, add, update, remove), route(
    paths_list(path = "notes"), paths_add(path = "{id}/notes/{item_id}"), paths_update(path = "{id}/notes"),
    paths_remove(path = "{id}/notes/{itemId}"),
))]
pub const PATHS: Operation<Post>;

#[operation(kind = "collection", field = notes, operations(add, set), route(
    meet_add(method = "PUT", path = "{id}/notes"), meet_set(path = "{id}/notes"),
))]
pub const MEET: Operation<Post>;

#[operation(kind = "collection", field = notes, operations(list), route(description = "The notes."))]
pub const DESCRIBED: Operation<Post>;

fn main() {}
