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
}

#[channel(of = Container, name = "chat")]
pub enum ContainerChat {
    #[publish]
    Said { text: String },
}

async fn say(rooms: &channel::Rooms, cx: &Cx, text: String) -> Result<()> {
    let room = rooms.room::<ContainerLive>("c1");
    room.publish(cx, ContainerChat::Said { text }).await
}

fn main() {}
