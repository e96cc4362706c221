use linchpin::prelude::*;

#[entity()]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(actor.id))]
    pub n: i64,
}

fn main() {}
