use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

// The function returns records instead of their keys.

async fn all(call: MemoryCall<Post>) -> Result<Vec<Post>> {
    call.visible().await
}

#[operation(kind = "custom", output = Vec<Post>, handler(memory = all))]
pub const ALL: Operation<Post>;

async fn first(call: MemoryCall<Post>) -> Result<Option<Post>> {
    Ok(call.visible().await?.into_iter().next())
}

#[operation(kind = "custom", output = Option<Post>, handler(memory = first))]
pub const FIRST: Operation<Post>;

async fn one(call: MemoryCall<Post>) -> Result<Post> {
    call.visible().await?.into_iter().next().ok_or_else(Error::forbidden)
}

#[operation(kind = "custom", output = Post, handler(memory = one))]
pub const ONE: Operation<Post>;

// The function returns a key instead of an `Option` of a key.
async fn last(_: MemoryCall<Post>) -> Result<String> {
    Ok(String::new())
}

#[operation(kind = "custom", output = Option<Post>, handler(memory = last))]
pub const LAST: Operation<Post>;

fn main() {}
