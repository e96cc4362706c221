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

#[operation(kind = "lookup", fields(container_id = param(container_id)), returns = "many")]
pub const OF: Operation<Thread>;

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[on(Thread::OF, by = container_id)]
    Thread(Thread),
}

fn main() {}
