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

#[operation(kind = "lookup", fields(), filter = (created_at == updated_at), returns = "many")]
pub const UNTOUCHED: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (updated_at > created_at))]
pub const STALE: Operation<Post>;

#[operation(kind = "lookup", fields(), filter = (title.one_of([id, "x"])), returns = "many")]
pub const NAMED: Operation<Post>;

#[operation(kind = "batch", action = "update", filter = (views > 3), set(updated_at = created_at, title = id))]
pub const RESET: Operation<Post>;

fn main() {}
