use linchpin::prelude::*;

pub type Money = i64;

#[entity(search(
    provider = "words",
    fields(titel = 2, score = 1, secret = 1, price = 1, body = 0, note = -1, kind = high, word, slug = 1, slug = 2, far = 1e60),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub body: String,
    pub note: String,
    pub kind: String,
    pub word: String,
    pub slug: String,
    pub far: String,
    pub score: i64,
    pub price: Money,
    #[field(private, default = "")]
    pub secret: String,
}

fn main() {}
