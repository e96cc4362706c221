use linchpin::prelude::*;

#[entity(action("read", live), action("read", live == false))]
pub struct Twice {
    #[field(primary, default = uuid)]
    pub id: String,
    pub live: bool,
}

#[entity(action("read", live))]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
    pub live: bool,
}

#[entity(gate(room_id -> Room, "raed"))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: String,
}

fn main() {}
