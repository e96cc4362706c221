use linchpin::prelude::*;

pub type Money = i64;

#[entity(search(provider = "words", fields(title = 2, price = 1)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub price: Money,
}

fn main() {}
