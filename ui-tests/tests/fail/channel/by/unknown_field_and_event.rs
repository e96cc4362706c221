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

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[on(Thread::updatd, by = container)]
    Thread(Thread),
}

fn main() {}
