use linchpin::prelude::*;

#[entity(
    counter(Thread.a, by = thread_id, min = 1, code = "schema_pending"),
    counter(Thread.b, by = thread_id, min = 1, code = "headers_too_large"),
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

fn main() {}
