use linchpin::prelude::*;

fn slot(reply: &Reply) -> String { reply.title.to_lowercase() }

#[entity]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub replies: i64,
    #[field(read_only, default = 0)]
    pub slots: i64,
}

#[entity(counter(Thread.replies, by = slot), counter(Thread.slots, by = thread_id, when(slot == "a")))]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    pub title: String,
    #[field(computed(slot, from(title)))]
    pub slot: String,
}

fn main() {}
