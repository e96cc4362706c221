use linchpin::prelude::*;

#[entity(index(titel), routes(auth = public))]
pub struct Post {
    #[field(primary)]
    pub id: bool,
    #[field(default = uuid)]
    pub n: i64,
    pub title: String,
}

fn main() {}
