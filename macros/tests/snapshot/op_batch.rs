/// Closes all overdue notes.
#[operation(kind = "batch", action = "update", filter = (due_at < param(before)), set(status = Status::Closed))]
pub const CLOSE_OVERDUE: Operation<Note>;
