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
    #[publish]
    Said { text: String },
    #[relay(event = "said")]
    Told { text: String },
}

fn main() {}
