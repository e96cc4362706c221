/// Closes a note.
#[operation(kind = "transition", field = status, from = [Status::Open, Status::Waiting], to = Status::Closed, set(due_at = now()))]
pub const CLOSE: Operation<Note>;
