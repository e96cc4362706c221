//! Valid counters that are similar to the mistakes in `fail/entity/counter`: optional keys, aliased
//! types, and scoped target entities with keys that must refer to visible records.

use linchpin::prelude::*;

mod forum {
    use linchpin::prelude::*;

    pub type Number = i64;

    #[entity(scope(owner_id = ctx(actor.id)))]
    pub struct Thread {
        #[field(primary, default = uuid)]
        pub id: String,
        pub owner_id: String,
        #[field(read_only, default = 0)]
        pub replies: Number,
        #[field(read_only, default = 0)]
        pub shown: i64,
        #[field(read_only, default = 0)]
        pub tagged: i64,
    }
}

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
}

type State = Status;

pub const MOST: i64 = 3;

#[entity(
    belongs_to(thread: forum::Thread, key = thread_id, on_delete = "cascade"),
    counter(forum::Thread.replies, by = thread_id),
    counter(forum::Thread.shown, by = thread_id, when(state == Status::Live && (points <= MOST || hidden_at.is_none()))),
    counter(forum::Thread.tagged, by = thread_id, when(tags.has("good") || status.one_of([Status::Draft, Status::Live])), min = 0),
    counter(Reply.children, by = parent_id, when(!spam), min = 2, code = "too_few"),
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    pub parent_id: Option<String>,
    pub status: Status,
    pub state: State,
    pub points: i64,
    pub spam: bool,
    pub tags: Vec<String>,
    pub hidden_at: Option<Timestamp>,
    #[field(read_only, default = 0)]
    pub children: i64,
}
