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
    #[publish]
    Said { text: String },
}

fn room(rooms: &channel::Rooms) {
    let _ = rooms.room::<ContainerLive>("c1");
}

fn main() {}
