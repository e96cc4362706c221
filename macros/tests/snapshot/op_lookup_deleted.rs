/// The deleted notes.
#[operation(kind = "lookup", fields(), returns = "many", paginate, deleted = "only", route(roles = ["admin"]))]
pub const BIN: Operation<Note>;
