use linchpin::prelude::*;

#[entity(version)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub version: i64,
}

fn main() {}
