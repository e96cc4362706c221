/// Gives a note another title and date.
#[operation(kind = "field_update", set(title, due_at))]
pub const EDIT: Operation<Note>;
