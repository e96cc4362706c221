use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Live,
    Gone,
}

#[entity(soft_delete(status = Status::Gone))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Gone)]
    pub status: Status,
}

fn main() {}
