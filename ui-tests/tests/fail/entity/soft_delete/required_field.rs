use linchpin::prelude::*;

#[entity(soft_delete(deleted_at))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub deleted_at: Timestamp,
}

fn main() {}
