use linchpin::prelude::*;

#[entity]
pub struct Unit;

#[entity]
pub union Both {
    a: i64,
}

#[entity]
pub fn function() {}

#[entity]
impl Unit {}

fn main() {}
