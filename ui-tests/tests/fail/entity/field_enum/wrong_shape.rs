use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub enum Empty {}

#[derive(FieldEnum, Clone, Copy)]
pub enum Generic<const N: usize> {
    A,
    B,
}

#[derive(FieldEnum, Clone, Copy)]
pub enum Options {
    #[field(renam = "a")]
    A,
    #[field(rename = "")]
    B,
    #[field(rename = "c", rename = "d")]
    C,
    #[field(rename("e"))]
    E,
}

fn main() {}
