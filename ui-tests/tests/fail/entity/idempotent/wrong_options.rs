use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    create(idempotent(ttl = "0h")),
    update(idempotent(ttl = "24 hours", require)),
    delete(idempotent = true),
    get(idempotent),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
