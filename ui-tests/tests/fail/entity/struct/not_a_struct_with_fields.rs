use linchpin::prelude::*;

#[entity]
pub struct Post(String);

#[entity]
pub enum Kind {
    A,
}

fn main() {}
