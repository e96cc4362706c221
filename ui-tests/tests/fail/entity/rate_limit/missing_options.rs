use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    create(rate_limit(max = 5)),
    list(rate_limit),
    get(rate_limit(window = "1s", max = "5")),
    update(deprecated = true, tags(), summary(x)),
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
