use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    create(rate_limit = "0/s"),
    list(rate_limit = "20"),
    get(rate_limit = "20/fortnight"),
    update(rate_limit(max = 0, window = "0s")),
    delete(rate_limit(max = 5, windw = "1s", key = actor)),
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

fn main() {}
