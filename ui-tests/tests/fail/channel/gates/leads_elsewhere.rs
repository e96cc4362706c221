use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[entity]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(gate(board_id -> Board))]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub score: i64,
    pub board_id: String,
}

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[on(Thread::created, by = container_id)]
    Thread(Thread),
}

fn main() {}
