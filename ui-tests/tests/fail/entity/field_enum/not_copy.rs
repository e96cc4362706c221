use linchpin::prelude::*;

#[derive(FieldEnum, Clone)]
pub enum Status {
    Draft,
    Live,
}

fn main() {}
