use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    Live,
}

#[entity(unique(slug))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "lookup", fields(slug = ), returns = "one")]
pub const BY_SLUG: Operation<Post>;

#[operation(kind = "field_update", set(title = ))]
pub const RENAME: Operation<Post>;

// No error says that `returns` is missing, or that `paginate` needs another value of it.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = , paginate)]
pub const FIND: Operation<Post>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", filter = (title == ))]
pub const TITLED: Operation<Post>;

#[operation(kind = "transition", field = status, from = Status::Draft, to =)]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "aggregate", compute(total = ), route(auth = ))]
pub const STATS: Operation<Post>;

#[operation(kind = )]
pub const UNSAID: Operation<Post>;

fn main() {}
