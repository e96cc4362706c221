use linchpin::prelude::*;
use linchpin_realtime::channel;

pub struct Container;

#[channel(of = Container, name = "live")]
pub enum ContainerLive {
    #[publish]
    Said { text: String },
}

fn main() {}
