use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    rate_limit = "1000/min",
    output(id, title, slug),
    create(input(title, slug), rate_limit = "10/15min", summary = "Writes a post", tags("writing", "posts")),
    list(output(id), rate_limit(max = 20, window = "1s", key = ip, fail_open)),
    update(input(title), deprecated),
    delete(rate_limit = "5 / h"),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(immutable)]
    pub slug: String,
    #[field(private)]
    pub hash: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "many", route(output(title), deprecated))]
pub const BY_SLUG: Operation<Post>;

// Inherits an output that says nothing about it.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;

fn main() {}
