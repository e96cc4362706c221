use linchpin::prelude::*;

/// The body of a request.
pub struct Wish {
    pub from: String,
}

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

// The body must be the last argument, and a struct without a trait of axum is not an extractor.
#[route(entity = Post, method = "POST", path = "wishes")]
async fn wishes(cx: Cx, body: String, wish: Wish) -> Result<String> {
    Ok(format!("{:?} {body} {}", cx.get_actor_id(), wish.from))
}

#[route(entity = Post, method = "GET", path = "pages/{page}")]
async fn pages(page: i64) -> String {
    page.to_string()
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [wishes, pages])]);

fn main() {}
