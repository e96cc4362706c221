/// An answer of a thread. Callers who see the thread see its published answers; authors also see
/// their own.
#[entity(
    gate(thread_id -> Thread, "read"),
    gate(parent_id -> Answer, depth = 2),
    visible(status == Status::Published || author_id == ctx(actor.id)),
    action("reply", locked == false),
)]
pub struct Answer {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
    pub author_id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = false)]
    pub locked: bool,
}
