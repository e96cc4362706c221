use linchpin::prelude::*;

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, update, delete, bmup)))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
pub const BUMP: Operation<Post>;

// An operation that the package does not list.
#[entity(scope(owner_id = ctx(actor.id), apply_to(create, update, delete, like)))]
#[derive(Clone, Debug)]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(default = 0)]
    pub likes: i64,
}

#[operation(kind = "increment", field = likes)]
pub const LIKE: Operation<Comment>;

// A name that is almost the name of a route.
#[entity(scope(owner_id = ctx(actor.id), apply_to(create, updates, delete)))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [BUMP]), entity(Comment), entity(Note)]);

// The broken operation may be the named one, so only its own error is reported.
#[entity(scope(owner_id = ctx(actor.id), apply_to(create, update, delete, touch)))]
#[derive(Clone, Debug)]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

#[operation(kind = "increment", field = touches)]
pub const TOUCH: Operation<Page>;

pub static PAGES: Package = package!(name = "pages", entities = [entity(Page, [TOUCH])]);

fn main() {}
