use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

pub static UPPER: Package = package!(name = "Blog Posts", mount = "/api/{version}", entities = [entity(Post, [])], dependencies = [auth]);
pub static FORMS: Package = package!(name = blog, mount, entities = entity(Post, []), dependencies("auth"));

fn main() {}
