use linchpin::prelude::*;

#[entity(sort = desc(created))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

fn main() {}
