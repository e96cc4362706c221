//! `method`, `path` and `description` of generated routes and of a collection's methods.

use linchpin::prelude::*;

#[derive(Clone, Embedded)]
pub struct Note {
    pub id: String,
    pub flag: bool,
}

// Two routes may have the same path and different methods. A route may use the default path of
// another route if that route has another path or is not mounted.
#[entity(
    parent_path = "sheets/{sheet_id}",
    scope(sheet_id = param(sheet_id)),
    routes(
        auth = none,
        create(method = "PUT", path = "/"),
        list(method = "GET", path = "every//one"),
        get(path = ":id/card", description = "At length.\n\nIn two parts."),
        update(method = "PUT", path = "{id}/card"),
        delete(method = "POST", path = "{id}"),
    )
)]
pub struct Moved {
    #[field(primary, default = uuid)]
    pub id: String,
    pub sheet_id: String,
    pub notes: Vec<Note>,
}

#[operation(kind = "collection", field = notes, operations(list, add, remove), route(
    auth = none,
    notes_list(method = "POST", path = "{id}/notes"),
    notes_add(method = "PUT", path = "{id}/notes", description = "One more."),
    notes_remove(path = "notes/{item_id}/of/{id}"),
))]
pub const NOTES: Operation<Moved>;

// These routes use the default paths of routes that have other paths or are not mounted.
#[operation(kind = "lookup", fields(sheet_id = param(of)), returns = "many", route(path = "{of}"))]
pub const OF: Operation<Moved>;

#[entity(routes(auth = none, update(disabled), delete(method = "PATCH", path = "{id}")))]
pub struct Instead {
    #[field(primary, default = uuid)]
    pub id: String,
}

pub static MOVED: Package = package!(
    name = "moved",
    entities = [entity(Moved, [NOTES, OF]), entity(Instead, [])]
);

#[test]
fn the_declarations_compile() {
    println!("{}", MOVED.name);
}
