use linchpin::prelude::*;

#[entity(routes(create(max_body = "8mb"), update(max_body = 8_000_000), get(max_body = "8MB"), delete(max_body = "1MB")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[entity(routes(create(max_body = "8M", timeout = "5 seconds"), update(max_body = "1.5MiB", timeout = 5)))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[operation(kind = "lookup", fields(views = param(views)), returns = "many", route(max_body = "8MB"))]
pub const SEEN: Operation<Post>;

fn main() {}
