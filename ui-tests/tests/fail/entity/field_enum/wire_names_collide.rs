use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub enum Status {
    Draft,
    #[field(rename = "draft")]
    Live,
}

fn main() {}
