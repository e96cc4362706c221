//! Computed fields: each is one step away from a case in `fail/entity/computed`.
use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Size {
    Small,
    Large,
}

mod keys {
    pub fn key(post: &super::Post) -> String {
        post.slug.to_lowercase()
    }
}

fn open_key(post: &Post) -> Option<String> {
    post.open.then(|| post.slug.clone())
}

fn size(post: &Post) -> Size {
    if post.slug.len() > 3 {
        Size::Large
    } else {
        Size::Small
    }
}

fn words(post: &Post) -> Vec<String> {
    vec![post.slug.clone()]
}

fn rank(post: &Post) -> f64 {
    post.slug.len() as f64
}

// In uniques, indexes and sorts; private or sensitive; in a module; of an enum, a number, a list
// and an optional type.
#[entity(unique(slug_key), unique(open_key), index(desc(rank), size), sort(desc(rank), size), version, routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(default = false)]
    pub open: bool,
    #[field(computed = keys::key, private)]
    pub slug_key: String,
    #[field(computed(open_key, from(slug, open)), filterable)]
    pub open_key: Option<String>,
    #[field(computed(size, from(slug,)), sortable)]
    pub size: Size,
    #[field(computed = rank)]
    pub rank: f64,
    #[field(computed = words)]
    pub words: Vec<String>,
}

#[operation(kind = "field_update", set(slug))]
pub const RENAME: Operation<Post>;

#[operation(kind = "lookup", fields(slug_key = param(key)), returns = "one")]
pub const BY_KEY: Operation<Post>;
