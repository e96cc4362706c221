use linchpin::prelude::*;
use linchpin_realtime::channel;

#[entity]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn room(rooms: &channel::Rooms) {
    let _ = rooms.room::<Container>("c1");
}

fn main() {}
