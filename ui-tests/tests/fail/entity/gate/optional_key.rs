use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(gate(room_id -> Room, depth = 2))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: Option<String>,
}

fn main() {}
