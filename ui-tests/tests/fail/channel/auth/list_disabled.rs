use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity(routes(list(disabled)))]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "all", scope = collection)]
pub enum ContainerLive {
    #[publish]
    Said { text: String },
}

fn main() {}
