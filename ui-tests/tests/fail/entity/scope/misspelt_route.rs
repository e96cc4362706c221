use linchpin::prelude::*;

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, upadte, delete)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

#[entity(scope(owner_id = ctx(actor.id), apply_to(creat, lsit, gte, updaate, dalete)))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post), entity(Comment)]);

fn main() {}
