/// Removes and returns one note with this title.
#[operation(kind = "consume", filter = (title == param(title)), returns = "entity", expiry = due_at)]
pub const TAKE: Operation<Note>;
