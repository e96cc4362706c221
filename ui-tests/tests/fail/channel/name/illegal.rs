use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "Live Room")]
pub enum ContainerLive {
    #[publish]
    Said { text: String },
}

fn main() {}
