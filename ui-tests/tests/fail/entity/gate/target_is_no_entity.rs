use linchpin::prelude::*;

pub struct Room;

#[entity(gate(room_id -> Room))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: String,
}

fn main() {}
