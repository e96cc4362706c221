use linchpin::prelude::*;

linchpin::context! {
    pub locale: String;
}

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(default = ctx(locle))]
    pub locale: String,
}

fn main() {}
