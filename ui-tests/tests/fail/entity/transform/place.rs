use linchpin::prelude::*;

#[transform]
fn upper(old: String) -> Result<String, TransformError> {
    Ok(old.to_uppercase())
}

fn key(post: &Post) -> String {
    post.title.clone()
}

#[derive(Clone, Debug, Embedded)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(transform = upper)]
    pub text: String,
}

#[entity]
pub struct Post {
    #[field(primary, default = uuid, transform = upper)]
    pub id: String,
    #[field(transform = upper, reverse = upper)]
    pub title: String,
    #[field(computed = key, transform = upper)]
    pub title_key: String,
    #[field(transform = "upper")]
    pub note: String,
    pub lines: Vec<Line>,
}

fn main() {}
