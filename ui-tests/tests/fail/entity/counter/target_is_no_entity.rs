use linchpin::prelude::*;

pub struct Thread {
    pub reply_count: i64,
}

#[entity(counter(Thread.reply_count, by = thread_id))]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

#[entity(counter(Nobody.reply_count, by = thread_id))]
pub struct Answer {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

fn main() {}
