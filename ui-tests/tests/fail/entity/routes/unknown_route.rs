use linchpin::prelude::*;

#[entity(routes(delet(disabled)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
