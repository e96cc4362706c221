use linchpin::prelude::*;

#[entity(ttl(expires_at))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub expires_at: Option<String>,
}

fn main() {}
