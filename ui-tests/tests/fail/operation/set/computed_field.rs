use linchpin::prelude::*;

#[entity(unique(slug), unique(slug_key), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(default = false)]
    pub live: bool,
    #[field(computed(key, from(slug)))]
    pub slug_key: String,
    #[field(computed = weight)]
    pub weight: i64,
    #[field(computed = tags)]
    pub tags: Vec<String>,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn weight(post: &Post) -> i64 {
    post.slug.len() as i64
}

fn tags(post: &Post) -> Vec<String> {
    vec![post.slug.clone()]
}

#[operation(kind = "increment", field = weight)]
pub const HEAVIER: Operation<Post>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Post>;

#[operation(kind = "transition", field = live, from = false, to = true, set(slug_key = "x"))]
pub const SHOW: Operation<Post>;

#[operation(kind = "field_update", set(slug_key))]
pub const RENAME: Operation<Post>;

#[operation(kind = "upsert", match(slug), on_create(slug_key = "x"))]
pub const PUT: Operation<Post>;

#[operation(kind = "upsert", match(slug_key), set(slug))]
pub const BY_KEY: Operation<Post>;

#[operation(kind = "batch", action = "update", filter = (live == true), set(weight = 3))]
pub const ALL: Operation<Post>;

fn main() {}
