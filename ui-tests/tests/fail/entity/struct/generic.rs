use linchpin::prelude::*;

#[entity]
pub struct Post<T> {
    #[field(primary)]
    pub id: String,
}

fn main() {}
