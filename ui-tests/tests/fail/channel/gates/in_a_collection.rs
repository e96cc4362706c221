use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity(gate(container_id -> Container))]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub score: i64,
}

#[channel(of = Thread, name = "all", scope = collection)]
pub enum Threads {
    #[on(Thread::created)]
    Thread(Thread),
}

fn main() {}
