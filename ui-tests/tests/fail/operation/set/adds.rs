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

#[operation(kind = "batch", action = "update", filter = (views > 3), set(views += 1))]
pub const COUNT: Operation<Post>;

#[operation(kind = "field_update", set(views += 2))]
pub const VIEW: Operation<Post>;

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, set(views = views + 1))]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "batch", action = "update", filter = (views > 3), set(views -= 1))]
pub const FORGET: Operation<Post>;

fn main() {}
