use linchpin::prelude::*;

#[entity]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub reply_count: i64,
}

#[entity(counter(Thread.reply_count, by = thread))]
pub struct Unknown {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

#[entity(counter(Thread.reply_count, by = thread_id))]
pub struct Kind {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: bool,
}

#[entity(counter(Thread.reply_count))]
pub struct Missing {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

fn main() {}
