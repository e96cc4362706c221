use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Live, Gone }

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, list, get, update, delete)))]
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

#[operation(kind = "increment", field = views)]
pub const ACT: Operation<Post>;

fn main() {}
