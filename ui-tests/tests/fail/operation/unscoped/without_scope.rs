use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Live, Gone }

#[entity()]
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

#[operation(kind = "increment", field = views, unscoped = "everybody counts")]
pub const ACT: Operation<Post>;

fn main() {}
