use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(read_only, write_only)]
    pub pin: Option<String>,
}

fn main() {}
