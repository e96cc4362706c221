use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    create(input(title, created_at)),
    update(input(slug)),
    get(input(title)),
    list(input()),
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
