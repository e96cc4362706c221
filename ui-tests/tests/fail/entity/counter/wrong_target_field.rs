use linchpin::prelude::*;

#[entity(version)]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub reply_count: i64,
    #[field(default = 0)]
    pub open: i64,
    #[field(read_only)]
    pub maybe: Option<i64>,
    pub unset: i64,
    #[field(read_only, default = "0")]
    pub text: String,
}

#[entity(
    counter(Thread.reply_cuont, by = thread_id),
    counter(Thread.open, by = thread_id),
    counter(Thread.maybe, by = thread_id),
    counter(Thread.unset, by = thread_id),
    counter(Thread.text, by = thread_id),
    counter(Thread.version, by = thread_id),
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

fn main() {}
