use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub hash: String,
}

#[projection(Container)]
pub struct ContainerCard {
    pub id: String,
    pub hash: String,
}

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[on(Container::updated)]
    Container(ContainerCard),
}

fn main() {}
