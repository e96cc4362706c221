use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(gate, gate(), gate(room_id), gate(room_id: Room), gate(room_id -> Room, deep = 3), gate(room_id -> Room, "read", "write"), visible, visible(), action(read), action("", live), action("read"))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: String,
    pub live: bool,
}

fn main() {}
