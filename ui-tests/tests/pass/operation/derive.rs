//! Valid operations that are similar to the mistakes in `fail/operation/derive`.
use linchpin::prelude::*;

pub type Key = String;

#[entity(unique(slug), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub tags: Vec<String>,
}

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: Key,
    #[field(filterable)]
    pub author: String,
}

// source: items of one type from two sources; a filter on fields of the items.
#[operation(
    kind = "derive",
    source(Post),
    source(Comment, where = (author == param(author)), traverse(Post, on = post_id)),
    merge = "union",
    post_filter = (slug != param(not)),
)]
pub const FEED: Operation<Post>;
#[operation(kind = "derive", source(Post, select = title), source(Comment, select = author), merge = "concat", post_filter = (title != "x"))]
pub const WORDS: Operation<Post>;
#[operation(kind = "derive", source(Post, select = tags), merge = "union", flatten)]
pub const TAGS: Operation<Post>;
// merge: two sources to intersect or to rank, one for all other merges.
#[operation(kind = "derive", source(Post), source(Post, where = (title == "x")), merge = "intersect")]
pub const BOTH: Operation<Post>;
#[operation(kind = "derive", source(Post), source(Post), merge = "priority")]
pub const RANKED: Operation<Post>;
#[operation(kind = "derive", source(Comment), merge = "first")]
pub const FIRST: Operation<Post>;

pub static POSTS: Package = package!(
    name = "posts",
    entities = [
        entity(Post, [FEED, WORDS, TAGS, BOTH, RANKED, FIRST]),
        entity(Comment, [])
    ],
);

#[allow(dead_code)] // the test is that it compiles
async fn use_it(posts: PostAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    let _: Vec<Post> = posts.feed(cx, "author", "slug").await?;
    let _: Vec<String> = posts.words(cx).await?;
    let _: Vec<String> = posts.tags(cx).await?;
    let _: Vec<Comment> = posts.first(cx).await?;
    Ok(())
}

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 2);
}
