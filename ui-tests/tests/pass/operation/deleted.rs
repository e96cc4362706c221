//! Valid operations that are similar to the mistakes in `fail/operation/soft_delete` and
//! `fail/operation/restore`: states in addition to the deleted one, a restore with a role or a
//! permission, a lookup of deleted records with a role.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Live,
    Gone,
}

#[entity(soft_delete(status = Status::Gone), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub previous: Option<Status>,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live, already = "ok")]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live, set(previous = Status::Gone))]
pub const NOTED: Operation<Post>;

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Post>;

#[entity(soft_delete(deleted_at), routes(auth = none))]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore", route(permission(requires = "pages.restore")))]
pub const BRING_BACK: Operation<Page>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "one", deleted = "only", route(roles = ["admin"]))]
pub const LOST: Operation<Page>;

pub static ALL: Package = package!(
    name = "all",
    entities = [
        entity(Post, [PUBLISH, NOTED, RESTORE]),
        entity(Page, [BRING_BACK, LOST])
    ]
);
