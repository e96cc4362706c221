use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub enum Status {
    Draft,
    Live(i64),
}

fn main() {}
