use linchpin::prelude::*;

#[entity(scope(owner_id == ctx(actor.id)), unique(owner_id, slug))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub slug: String,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Post>;

pub static POSTS: Package = package!(name = "posts", entities = [entity(Post, [BY_SLUG])]);

fn main() {}
