use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(rename_from = "old")]
    pub a: String,
    #[field(rename_from = "old")]
    pub b: String,
}

fn main() {}
