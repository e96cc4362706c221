/// Takes a note out of the bin.
#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Note>;
