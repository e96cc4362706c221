use linchpin::prelude::*;

#[entity(routes(create(max_body = "2 megs")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
