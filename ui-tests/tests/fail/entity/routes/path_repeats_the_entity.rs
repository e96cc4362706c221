use linchpin::prelude::*;

#[entity(routes(get(path = "/posts/{id}/whole")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
