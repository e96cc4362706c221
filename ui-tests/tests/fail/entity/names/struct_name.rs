use linchpin::prelude::*;

#[entity]
pub struct blog_post {
    #[field(primary)]
    pub id: String,
}

#[entity]
pub struct Größe {
    #[field(primary)]
    pub id: String,
}

#[entity(name = "größe")]
pub struct Size {
    #[field(primary)]
    pub id: String,
}

fn main() {}
