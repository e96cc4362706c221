use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[derive(Clone, Copy, FieldEnum)]
pub enum Status {
    Draft,
    Live,
}

#[entity]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub score: i64,
    pub status: Status,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Thread>;

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[on(Container::PUBLISH)]
    Container(Container),
}

fn main() {}
