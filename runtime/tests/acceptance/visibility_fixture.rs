//! Entities with restricted visibility: soft delete, expiry, tenants, scopes, parents in the path.
#![allow(missing_docs)] // test entities

use linchpin::prelude::*;

use crate::visibility_kinds::*;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
    Gone,
}

/// Soft delete by a date.
#[entity(soft_delete(deleted_at), unique(slug), index(title), pagination(default = 2, max = 3), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(default = 0)]
    pub views: i64,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Note>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const BY_TITLE: Operation<Note>;

#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Note>;

#[operation(kind = "increment", field = views)]
pub const BUMP: Operation<Note>;

#[operation(kind = "upsert", match(slug), set(title), returns = "created")]
pub const ENSURE: Operation<Note>;

#[operation(kind = "batch", action = "delete", filter = (title == param(title)))]
pub const CLEAR: Operation<Note>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity")]
pub const TAKE: Operation<Note>;

/// Soft delete by an enum variant, with versions.
#[entity(soft_delete(status = Status::Gone), version, unique(name), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Flagged {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    #[field(default = Status::Draft)]
    pub status: Status,
}

#[operation(kind = "field_update", set(status))]
pub const RESTATE: Operation<Flagged>;

#[operation(kind = "batch", action = "update", filter = (name == param(name)), set(status = param(status)))]
pub const RESTATE_ALL: Operation<Flagged>;

#[operation(kind = "upsert", match(name), set(status))]
pub const DECLARE: Operation<Flagged>;

/// A record with soft delete whose key the caller chooses.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Parcel {
    #[field(primary)]
    pub id: String,
    pub deleted_at: Option<Timestamp>,
}

/// A session that expires a second after its last change.
#[entity(ttl("1s"), unique(code), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Session {
    #[field(primary)]
    pub id: String,
    pub code: String,
    #[field(default = 0)]
    pub hits: i64,
    pub note: Option<String>,
}

#[operation(kind = "increment", field = hits)]
pub const HIT: Operation<Session>;

#[operation(kind = "upsert", match(code), set(note), on_create(id = param(id)))]
pub const LOGIN: Operation<Session>;

/// An invitation with its own expiry date.
#[entity(ttl(expires_at), unique(code), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Invite {
    #[field(primary, default = uuid)]
    pub id: String,
    pub code: String,
    pub expires_at: Option<Timestamp>,
}

#[operation(kind = "exists", fields(code = param(code)))]
pub const CODE_TAKEN: Operation<Invite>;

/// A task that only its owner sees and changes; a scope restricts it.
#[entity(
    scope(owner_id = ctx(actor.id)),
    unique(slug),
    index(title),
    pagination(default = 2, max = 3),
    belongs_to(whole: Task, key = whole_id),
    has_many(parts: Task, key = whole_id, max = 1),
    routes(idempotent),
)]
#[derive(Clone, Debug)]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub whole_id: Option<String>,
    pub owner_id: String,
    pub slug: String,
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    pub tags: Vec<String>,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Task>;

#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Task>;

#[operation(kind = "lookup", fields(owner_id = ctx(actor.id)), returns = "many")]
pub const MINE: Operation<Task>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const TASK_BY_SLUG: Operation<Task>;

#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TASK_TAKEN: Operation<Task>;

#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Task>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const ADD_TAG: Operation<Task>;

#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(status = Status::Live))]
pub const PUBLISH_ALL: Operation<Task>;

#[operation(kind = "upsert", match(slug), set(title))]
pub const TASK_ENSURE: Operation<Task>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "boolean")]
pub const TASK_TAKE: Operation<Task>;

/// The tasks with a given title, of all owners.
#[operation(kind = "lookup", fields(title = param(title)), returns = "many", unscoped = "titles are public within the house")]
pub const ANYBODYS: Operation<Task>;

/// A line of an account.
#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    pub note: String,
}

/// All options at once: tenant, version, soft delete, and a serial number that is unique across
/// tenants.
#[entity(
    tenant(tenant_id),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    unique(serial, global),
    index(title),
    sort = desc(created_at),
    pagination(default = 2, max = 3),
    belongs_to(parent: Account, key = parent_id),
    has_many(branches: Account, key = parent_id, max = 1),
    routes(idempotent),
)]
#[derive(Clone, Debug)]
pub struct Account {
    #[field(primary, default = uuid)]
    pub id: String,
    pub parent_id: Option<String>,
    pub tenant_id: String,
    pub slug: String,
    pub serial: Option<String>,
    #[field(filterable, sortable)]
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0, filterable, sortable)]
    pub views: i64,
    #[field(filterable)]
    pub tags: Vec<String>,
    pub lines: Vec<Line>,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const OPEN: Operation<Account>;

#[operation(kind = "increment", field = views)]
pub const COUNT: Operation<Account>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const ACCOUNT_BY_SLUG: Operation<Account>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many", paginate)]
pub const ACCOUNTS_BY_TITLE: Operation<Account>;

#[operation(kind = "lookup", fields(status = Status::Draft), filter = (title.contains(param(part)) && slug.one_of(param(slugs))), returns = "many", route(method = "POST"))]
pub const FIND: Operation<Account>;

#[operation(kind = "exists", fields(slug = param(slug)))]
pub const ACCOUNT_TAKEN: Operation<Account>;

#[operation(kind = "field_update", set(title), match(slug = param(slug)))]
pub const RENAME: Operation<Account>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Account>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Account>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Account>;

#[operation(kind = "aggregate", compute(n = count(), seen = sum(views)))]
pub const STATS: Operation<Account>;

#[operation(kind = "search", fields(title))]
pub const SEARCH: Operation<Account>;

#[operation(kind = "collection", field = lines, operations(list, add, remove, update, set), max_items = 5)]
pub const LINES: Operation<Account>;

#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(status = Status::Live))]
pub const OPEN_ALL: Operation<Account>;

#[operation(kind = "batch", action = "delete", filter = (slug == param(slug)))]
pub const CLOSE_ALL: Operation<Account>;

#[operation(kind = "upsert", match(slug), set(title), returns = "created")]
pub const ENROL: Operation<Account>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity")]
pub const CLOSE: Operation<Account>;

/// Records of a tenant, and public ones without a tenant.
#[entity(
    tenant(tenant_id, optional, anonymous_read),
    unique(slug),
    routes(idempotent, list(auth = none), get(auth = none)),
)]
#[derive(Clone, Debug)]
pub struct Sheet {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub slug: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "exists", fields(slug = param(slug)), route(auth = none))]
pub const SHEET_TAKEN: Operation<Sheet>;

#[operation(kind = "increment", field = views)]
pub const SHEET_VIEW: Operation<Sheet>;

#[operation(kind = "upsert", match(slug), set(views), returns = "created")]
pub const SHEET_ENSURE: Operation<Sheet>;

/// A board that every caller reads and only the owner writes.
#[entity(
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete, board_view)),
    unique(slug),
    routes(list(auth = none), get(auth = none)),
)]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub slug: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
pub const BOARD_VIEW: Operation<Board>;

/// A ledger of a numeric tenant in a private field.
#[entity(tenant(tenant), unique(slug))]
#[derive(Clone, Debug)]
pub struct Ledger {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub tenant: i64,
    pub slug: String,
}

/// A comment, whose path contains a team and a document.
#[entity(
    parent_path = "teams/{team_id}/documents/{doc_id}",
    scope(team_id = param(team_id)),
    scope(doc_id = param(doc_id)),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team_id: i64,
    pub doc_id: String,
    pub text: String,
    #[field(default = 0)]
    pub likes: i64,
}

#[operation(kind = "increment", field = likes)]
pub const LIKE: Operation<Comment>;

#[operation(kind = "lookup", fields(text = param(text)), returns = "many")]
pub const SAYING: Operation<Comment>;

/// An article that stores its author.
#[entity]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(actor.id))]
    pub author_id: String,
    pub title: String,
}

/// A visit that stores the session in which it was created.
#[entity]
#[derive(Clone, Debug)]
pub struct Visit {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(actor.session_id))]
    pub session_id: Option<String>,
}

pub static SEEN: Package = package!(
    name = "seen",
    entities = [
        entity(
            Note,
            [BY_SLUG, BY_TITLE, SLUG_TAKEN, BUMP, ENSURE, CLEAR, TAKE]
        ),
        entity(Flagged, [RESTATE, RESTATE_ALL, DECLARE]),
        entity(Parcel),
        entity(Session, [HIT, LOGIN]),
        entity(Invite, [CODE_TAKEN]),
        entity(
            Task,
            [
                PUBLISH,
                VIEW,
                MINE,
                TASK_BY_SLUG,
                TASK_TAKEN,
                RETITLE,
                ADD_TAG,
                PUBLISH_ALL,
                TASK_ENSURE,
                TASK_TAKE,
                ANYBODYS,
                TASK_FEED,
                TASK_RECOUNT,
                TASK_RECOUNT_OWN,
                TASK_TALLY,
                TASK_PEEK
            ]
        ),
        entity(
            Account,
            [
                OPEN,
                COUNT,
                ACCOUNT_BY_SLUG,
                ACCOUNTS_BY_TITLE,
                FIND,
                ACCOUNT_TAKEN,
                RENAME,
                TAG,
                UNTAG,
                RETAG,
                LINES,
                STATS,
                SEARCH,
                OPEN_ALL,
                CLOSE_ALL,
                ENROL,
                CLOSE,
                ACCOUNT_FEED,
                ACCOUNT_RECOUNT,
                ACCOUNT_RECOUNT_OWN,
                ACCOUNT_RESTORE,
                ACCOUNT_LOST,
                ACCOUNT_TALLY,
                ACCOUNT_PEEK,
            ]
        ),
        entity(Sheet, [SHEET_TAKEN, SHEET_VIEW, SHEET_ENSURE, SHEET_FEED]),
        entity(Board, [BOARD_VIEW]),
        entity(Ledger, []),
        entity(Comment, [LIKE, SAYING]),
        entity(Article, []),
        entity(Visit, []),
        entity(Vault, []),
        entity(
            Slip,
            [
                SLIPS_BY_TITLE,
                SLIP_BY_SLUG,
                SLIP_TAKEN,
                SLIP_VIEW,
                SLIP_MOVE,
                SLIP_TAG,
                SLIP_STATS,
                SLIP_FIND,
                SLIP_MARK,
                SLIP_CLEAR,
                SLIP_TAKE,
                SLIP_FEED,
                SLIP_RECOUNT,
                SLIP_RECOUNT_OWN,
                SLIP_TALLY,
                SLIP_PEEK,
            ]
        ),
    ],
);
