use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = "1..200")]
    pub title: String,
    #[field(range = "0..=100")]
    pub score: i64,
    #[field(items = "3")]
    pub tags: Vec<String>,
    #[field(length = "short")]
    pub note: String,
    #[field(length = 200)]
    pub body: String,
    #[field(range = "2020-01-01T00:00:00Z")]
    pub since: Timestamp,
    #[field(each(length = ..64))]
    pub words: Vec<String>,
}

fn main() {}
