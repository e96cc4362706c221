use linchpin::prelude::*;

#[entity(routes(auth = none, update(method = "POST"), delete(method = "POST", path = ":id")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
