/// A reply. Its thread, its parent reply and its author count their replies.
#[entity(
    counter(super::blog::Thread.reply_count, by = thread_id, when(status == Status::Live && points >= 0)),
    counter(Reply.children, by = parent_id),
    counter(Person.replies, by = author_id, min = 1, code = "last_reply"),
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    pub parent_id: Option<String>,
    pub author_id: i64,
    pub status: Status,
    pub points: i64,
    #[field(read_only, default = 0)]
    pub children: i64,
}
