use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(one_of("a", "b"), default = "c")]
    pub mark: String,
}

fn main() {}
