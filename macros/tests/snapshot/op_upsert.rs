/// Creates or renames a note.
#[operation(kind = "upsert", match(title), set(owner_id, status), on_create(created_at = now()), returns = "created")]
pub const ENSURE: Operation<Note>;
