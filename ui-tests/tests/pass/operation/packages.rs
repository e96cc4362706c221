//! A package whose operation, route and entities have similar paths.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

pub type Money = i64;

#[entity(unique(slug), unique(author_id, title), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = 0)]
    pub price: Money,
    pub meta: serde_json::Value,
    #[field(private, default = "")]
    pub secret: String,
    pub tags: Vec<String>,
    pub published_at: Option<Timestamp>,
    #[field(immutable)]
    pub origin: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "lookup", returns = "one", fields(slug = param(slug)), route(path = "{slug}/one"))]
pub const BY_SLUG: Operation<Post>;
#[entity(path = "posts/all/comments", routes(auth = none))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub likes: i64,
}
#[operation(kind = "increment", field = likes)]
pub const LIKE: Operation<Comment>;

#[route(entity = Post, method = "GET", path = "stats")]
async fn stats(posts: PostAdapter, cx: Cx) -> Result<String> {
    posts
        .list(&cx, PostListQuery::new())
        .await
        .map(|page| page.items.len().to_string())
}

pub static BLOG: Package = package!(
    name = "blog",
    entities = [entity(Post, [BY_SLUG, stats]), entity(Comment, [LIKE])],
    mount = "/api",
    dependencies = ["auth"]
);
