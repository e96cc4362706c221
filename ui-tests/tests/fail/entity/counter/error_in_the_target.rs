use linchpin::prelude::*;

#[entity(counter(Thread.reply_count, by = thread_id))]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
}

// The mistake in this entity does not affect the field that is counted.
#[entity(sort = desc(createdat))]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub reply_count: i64,
}

fn main() {}
