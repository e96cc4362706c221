use linchpin::prelude::*;

#[entity(namespace, index, sort("title"), version = 2, stores = [sqlite], check("x"), routes = none)]
pub struct Post {
    #[field(primary = true, default, column(a), length(1, 2), each = "x")]
    pub id: String,
    #[field]
    pub title: String,
    #[field = "private"]
    pub body: String,
}

fn main() {}
