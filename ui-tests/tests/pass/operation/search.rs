//! Valid searches that are similar to the mistakes in `fail/operation/search`.
use linchpin::prelude::*;

pub type Text = String;

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub body: Option<Text>,
    #[field(private, default = "")]
    pub secret: String,
    pub tags: Vec<String>,
}

// A private field may be in the filter, and the store itself may be named as the provider.
#[operation(kind = "search", fields(title, body), filter = (secret != param(not)), optional_params(not), use_search_provider = false)]
pub const FIND: Operation<Post>;
#[operation(kind = "search", fields(body), paginate, filter = (tags.has(param(tag))))]
pub const TAGGED: Operation<Post>;

pub static POSTS: Package = package!(name = "posts", entities = [entity(Post, [FIND, TAGGED])]);

#[allow(dead_code)] // the test is that it compiles
async fn use_it(posts: PostAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    let page = linchpin::entity::PageArgs::default();
    let _: Vec<Post> = posts
        .find(cx, "text", "secret".to_owned(), page.clone())
        .await?;
    let _: linchpin::entity::Page<Post> = posts.tagged(cx, "text", "tag", page).await?;
    Ok(())
}

#[test]
fn the_declarations_compile() {
    assert_eq!(POSTS.entities.len(), 1);
}
