use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Published, Archived }

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, set(title))]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "batch", action = "update", filter = (views > 3), set(title = title))]
pub const NAME: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (views > views + 1))]
pub const REMOVE: Operation<Post>;

fn main() {}
