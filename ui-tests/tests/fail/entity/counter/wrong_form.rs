use linchpin::prelude::*;

#[entity(
    stores(sqlite, redis),
    counter(Thread.reply_count, by = thread_id),
    counter(Thread.reply_count, by = other_id),
    counter(Thread.a, by = thread_id, min = -1),
    counter(Thread.b, by = thread_id, min = 1, code = "Last Owner"),
    counter(Thread.c, by = thread_id, min = 1, code = "forbidden"),
    counter(Thread.d, by = thread_id, code = "last_owner"),
    counter(Thread.e, by = thread_id, wehn(other_id.is_some())),
    counter(reply_count, by = thread_id),
    counter = Thread,
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    pub other_id: Option<String>,
}

fn main() {}
