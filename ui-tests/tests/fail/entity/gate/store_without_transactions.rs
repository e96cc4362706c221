use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(stores(memory, redis), gate(room_id -> Room))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub room_id: String,
}

fn main() {}
