/// Restores a deleted note.
#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Note>;
