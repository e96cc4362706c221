/// The remarks on a note.
#[operation(kind = "collection", field = remarks, operations(list, add, remove, update, set), max_items = 50, route(
    remarks_add(auth = none, method = "PUT", path = "{id}/remarks", description = "Adds a remark."),
    remarks_remove(path = "{id}/remarks/{item_id}"),
))]
pub const REMARKS: Operation<Note>;
