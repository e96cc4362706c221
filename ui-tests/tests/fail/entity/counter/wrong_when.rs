use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
}

#[entity]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub reply_count: i64,
}

#[entity(
    counter(Thread.reply_count, by = thread_id, when(stauts == Status::Live)),
    counter(Thread.a, by = thread_id, when(status == "live")),
    counter(Thread.b, by = thread_id, when(author_id == ctx(actor.id) && made_at < now())),
    counter(Thread.c, by = thread_id, when(status == param(status) || text.contains(input(text)))),
    counter(Thread.d, by = thread_id, when()),
    counter(Thread.e, by = thread_id, when(status)),
    counter(Thread.f, by = thread_id, when(points > 5 && points < 3)),
    counter(Thread.g, by = thread_id, when = live),
)]
pub struct Reply {
    #[field(primary, default = uuid)]
    pub id: String,
    pub thread_id: String,
    pub author_id: String,
    pub status: Status,
    pub text: String,
    pub points: i64,
    pub made_at: Timestamp,
}

fn main() {}
