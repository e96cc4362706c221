use linchpin::prelude::*;

#[entity(unique(a, b), unique(b, a), unique(desc(a)))]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub a: String,
    pub b: String,
}

fn main() {}
