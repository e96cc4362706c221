use linchpin::prelude::*;

#[entity(rename_from = ["articles", "posts", "articles", "texts"])]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(rename_from = ["caption", "slug", "caption"])]
    pub title: String,
    #[field(rename_from = ["body", "caption"])]
    pub text: String,
    #[field(rename_from = [])]
    pub note: String,
    #[field(rename_from = [label])]
    pub tag: String,
}

fn main() {}
