use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "all", scope = collection)]
pub enum ContainerLive {
    #[on(Container::created, by = id)]
    Container(Container),
}

fn main() {}
