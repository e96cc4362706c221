use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub enum Status {
    Draft,
    Live,
}

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: Status,
}

fn main() {}
