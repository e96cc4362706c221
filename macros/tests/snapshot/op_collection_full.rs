/// What has been said about a note.
#[operation(kind = "collection", field = remarks, operations(list, add, remove, update, set), max_items = 50, route(remarks_add(auth = none)))]
pub const REMARKS: Operation<Note>;
