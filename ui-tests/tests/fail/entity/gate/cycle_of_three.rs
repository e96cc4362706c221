use linchpin::prelude::*;

#[entity(gate(two_id -> Two))]
pub struct One {
    #[field(primary, default = uuid)]
    pub id: String,
    pub two_id: String,
}

#[entity(gate(three_id -> Three))]
pub struct Two {
    #[field(primary, default = uuid)]
    pub id: String,
    pub three_id: String,
}

#[entity(gate(one_id -> One))]
pub struct Three {
    #[field(primary, default = uuid)]
    pub id: String,
    pub one_id: String,
}

// A gate that leads into a cycle without being part of it.
#[entity(gate(one_id -> One))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub one_id: String,
}

fn main() {}
