/// Takes the next due ones.
#[operation(kind = "batch", action = "update", filter = (due_at <= now()), set(views = 1), limit = 5, sort = asc(due_at), returns = "records")]
pub const CLAIM: Operation<Note>;
