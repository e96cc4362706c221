use linchpin::prelude::*;

#[entity(pagination(default = 0, max = 10_001, most = 3, unbounded_lookup = 1))]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

#[entity(pagination(default = "20", max = 201.5))]
pub struct Note {
    #[field(primary)]
    pub id: String,
}

fn main() {}
