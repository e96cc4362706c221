use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub score: i64,
}

#[operation(kind = "field_update", match(id = param(id)), set(score))]
pub const SCORE: Operation<Thread>;

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[incoming(Thread::SCORE, by = container_id)]
    Score { score: String },
}

fn main() {}
