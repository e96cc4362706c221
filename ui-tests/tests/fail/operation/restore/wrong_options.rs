use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Stage { Draft, Gone }

#[entity(soft_delete(deleted_at), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub deleted_at: Option<Timestamp>,
}

// Anyone could read deleted records.
#[operation(kind = "restore")]
pub const RESTORE: Operation<Post>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "one", deleted = "only")]
pub const LOST: Operation<Post>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "one", deleted = "all", route(roles = ["admin"]))]
pub const ALL: Operation<Post>;

#[entity(routes(auth = none, roles = ["admin"]))]
pub struct Plain {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[operation(kind = "restore")]
pub const BACK: Operation<Plain>;

#[entity(soft_delete(stage = Stage::Gone), routes(auth = none, roles = ["admin"]))]
pub struct Staged {
    #[field(primary, default = uuid)]
    pub id: String,
    pub stage: Stage,
}

#[operation(kind = "restore")]
pub const RECOVER: Operation<Staged>;

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Draft, already = "fine")]
pub const AGAIN: Operation<Staged>;

fn main() {}
