/// What strangers see of a note.
#[projection(crate::notes::Note)]
#[derive(Clone)]
pub struct NoteCard {
    pub id: String,
    /// On top.
    pub title: String,
    pub created_at: Timestamp,
}
