//! Valid uses of deletion, expiry, tenants and scopes, similar to mistakes in `fail/entity`.
#![allow(dead_code, missing_docs)]

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    Live,
    Gone,
}

type Moment = Timestamp;
type Text = String;

// soft_delete, ttl: dates with aliased types; the default differs from the mark.
#[entity(soft_delete(deleted_at), ttl(expires_at))]
pub struct Dated {
    #[field(primary, default = uuid)]
    pub id: String,
    pub deleted_at: Option<Moment>,
    pub expires_at: Option<Moment>,
}

#[entity(soft_delete(status = Status::Gone), ttl("90s"))]
pub struct Marked {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub before: Option<Status>,
}

// soft_delete: a transition of another field of the same enum, and one between values of records
// that are not deleted.
#[operation(kind = "transition", field = before, from = Status::Live, to = Status::Gone)]
pub const REMEMBER: Operation<Marked>;

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Marked>;

// tenant, scope: a hidden tenant of whole numbers; every public route reads.
#[entity(
    tenant(tenant_id, optional, anonymous_read),
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete)),
    routes(list(auth = none), get(auth = none)),
)]
pub struct Owned {
    #[field(primary)]
    pub id: i64,
    #[field(private)]
    pub tenant_id: Option<i64>,
    pub owner_id: Text,
    #[field(default = ctx(actor.claims.team))]
    pub team: Option<String>,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "lookup", fields(team = param(team)), returns = "many", route(auth = none))]
pub const BY_TEAM: Operation<Owned>;

#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Owned>;

// unscoped: a scope that does not apply to all routes, with the reason.
#[entity(scope(owner_id = ctx(actor.id), apply_to(create, list), unscoped = "editors share all drafts"))]
pub struct Shared {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
pub const SHARED_VIEW: Operation<Shared>;

// A parent path with two parameters, each bound.
#[entity(parent_path = "teams/{team_id}/documents/:doc_id", scope(team_id = param(team_id)), scope(doc_id = param(doc_id)), routes(auth = none))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team_id: i64,
    pub doc_id: String,
    #[field(default = 0)]
    pub likes: i64,
}

#[operation(kind = "increment", field = likes, unscoped = "likes are counted wherever the comment is shown")]
pub const LIKE: Operation<Comment>;
