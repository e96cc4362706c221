use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    output_once(all: String),
    create(output_once(title: String, code: Post)),
    get(output_once(secret: String)),
    delete(output_once(secret: String)),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[route(entity = Post, method = "POST", path = "secret", auth = none, output_once(secret: String))]
async fn secret() -> &'static str {
    "secret"
}

fn main() {}
