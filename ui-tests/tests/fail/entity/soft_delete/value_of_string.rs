use linchpin::prelude::*;

#[entity(soft_delete(status = "gone"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub status: String,
}

fn main() {}
