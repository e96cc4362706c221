use linchpin::prelude::*;

#[entity]
pub struct Empty {}

fn main() {}
