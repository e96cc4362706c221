use linchpin::prelude::*;

#[entity]
pub struct Post {
    pub id: String,
    pub title: String,
}

fn uses(create: PostCreate, patch: PostPatch, adapter: &PostAdapter) -> (String, Option<String>) {
    let _ = (adapter.clone(), post::title, Post::DESC);
    (create.title, patch.title)
}

fn main() {}
