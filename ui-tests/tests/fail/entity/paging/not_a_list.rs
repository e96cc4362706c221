use linchpin::prelude::*;

#[entity(routes(paging = "page", get(paging = "page")))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = false)]
    pub pinned: bool,
    pub title: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

fn main() {}
