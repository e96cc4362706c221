use linchpin::prelude::*;

#[entity(stores(sqllite))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
