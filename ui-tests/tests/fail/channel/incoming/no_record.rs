use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity(index(container_id))]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub score: i64,
}

#[operation(kind = "batch", action = "update", filter = (container_id == param(container_id)), set(score = 0))]
pub const CLEAR: Operation<Thread>;

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[incoming(Thread::CLEAR, by = container_id)]
    Clear { container_id: String },
}

fn main() {}
