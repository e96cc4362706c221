use linchpin::prelude::*;

#[entity(indx(title))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
