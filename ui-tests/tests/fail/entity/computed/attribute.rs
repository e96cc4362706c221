use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(computed = key)]
    pub key: String,
}

#[computed]
fn key<T>(_: &T) -> String {
    String::new()
}

#[computed]
fn owned(post: Post) -> String {
    post.id
}

#[computed(version = 2)]
fn versioned(post: &Post) -> String {
    post.id.clone()
}

#[computed]
const NONE: i64 = 0;

impl Post {
    #[computed]
    fn method(&self) -> String {
        self.id.clone()
    }
}

fn main() {}
