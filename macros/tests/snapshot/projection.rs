/// The public part of a note.
#[projection(crate::notes::Note)]
#[derive(Clone)]
pub struct NoteCard {
    pub id: String,
    /// The title.
    pub title: String,
    pub created_at: Timestamp,
}
