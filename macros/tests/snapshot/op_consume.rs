/// Takes a note of this title once.
#[operation(kind = "consume", filter = (title == param(title)), returns = "entity", expiry = due_at)]
pub const TAKE: Operation<Note>;
