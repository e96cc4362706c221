use linchpin::prelude::*;

#[entity(soft_delete(deleted))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub deleted_at: Option<Timestamp>,
}

fn main() {}
