use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(gate(flag -> Room), gate(flag -> Room), gate(version -> Room), version)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub flag: bool,
}

fn main() {}
