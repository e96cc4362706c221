/// A note.
#[entity(namespace = "notes", index(owner_id, desc(created_at)), sort = desc(created_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    /// The title.
    #[field(length = 1..=200)]
    pub title: String,
    pub owner_id: String,
    #[field(default = Status::Open)]
    pub status: Status,
    pub tags: Vec<String>,
    pub due_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}
