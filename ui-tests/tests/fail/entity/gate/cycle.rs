use linchpin::prelude::*;

#[entity(gate(note_id -> Note))]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
    pub note_id: String,
}

#[entity(gate(room_id -> Room))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: String,
}

fn main() {}
