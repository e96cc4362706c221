use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy)]
pub enum Status {
    Draft,
    Live,
}

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Zzz)]
    pub status: Status,
}

fn main() {}
