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
    #[relay(rate = "5000/s")]
    Told { text: String },
    #[relay(rate = 5)]
    Sung { text: String },
}

fn main() {}
