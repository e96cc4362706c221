use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub struct Status;

fn main() {}
