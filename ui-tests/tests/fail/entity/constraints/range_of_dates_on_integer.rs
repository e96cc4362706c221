use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(range = "2020-01-01T00:00:00Z"..)]
    pub n: i64,
}

fn main() {}
