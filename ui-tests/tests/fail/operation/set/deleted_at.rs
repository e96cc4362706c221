use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Live, Gone }

#[entity(soft_delete(deleted_at))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub previous: Option<Status>,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "transition", field = status, from = Status::Live, to = Status::Draft, set(deleted_at = now()))]
pub const ACT: Operation<Post>;

fn main() {}
