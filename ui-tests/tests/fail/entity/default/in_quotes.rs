use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = "uuid")]
    pub id: String,
    #[field(default = "now")]
    pub created_at: Timestamp,
}

#[entity]
pub struct Note {
    #[field(primary, default = "first")]
    pub id: String,
}

#[entity]
pub struct Room {
    #[field(primary, default = 7)]
    pub id: i64,
}

#[entity]
pub struct Desk {
    #[field(primary, default = "cuid")]
    pub id: Uuid,
}

#[derive(Clone, Debug, Embedded)]
pub struct Part {
    #[field(primary, default = "uuid")]
    pub id: String,
}

fn main() {}
