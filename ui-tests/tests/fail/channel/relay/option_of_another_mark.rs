use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[publish(echo)]
    Said { text: String },
    #[relay(ephemeral)]
    Told { text: String },
    #[on(Container::updated, rate = "2/s")]
    Container(Container),
}

fn main() {}
