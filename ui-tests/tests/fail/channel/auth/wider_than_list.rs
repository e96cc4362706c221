use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity(routes(get(auth = none)))]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[channel(of = Container, name = "live", scope = collection, auth = none)]
pub enum ContainerLive {
    #[publish]
    Said { text: String },
}

fn main() {}
