#[projection(Note)]
pub struct NoteCard {
    pub id: String,
    pub titel: String,
}
