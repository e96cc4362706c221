//! Entities of the fixture whose records are seen through others: chains, a tree, conditions on the caller and on the time.
#![allow(missing_docs, dead_code)] // a fixture: nobody calls its methods, the differential test reads its descriptors

use linchpin::prelude::*;

/// Of a tenant or of none; open, or its author's alone; deleted softly and restored.
#[entity(
    namespace = "diff",
    tenant(tenant_id, optional, anonymous_read),
    soft_delete(deleted_at),
    visible(open || author_id == ctx(actor.id)),
    action("fill", sealed == false || author_id == ctx(actor.id)),
    has_many(volumes: Volume, key = shelf_id, max = 2),
    pagination(default = 3, max = 200),
    routes(list(auth = none), get(auth = none)),
)]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub author_id: Option<String>,
    #[field(default = true)]
    pub open: bool,
    #[field(default = false)]
    pub sealed: bool,
    #[field(default = 0)]
    pub volumes_seen: i64,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore", route(roles = ["editor"]))]
pub const REOPEN: Operation<Shelf>;

#[operation(kind = "transition", field = sealed, from = false, to = true, already = "ok")]
pub const SEAL: Operation<Shelf>;

/// The number of those that the caller sees.
#[operation(
    kind = "computed_aggregate",
    source = Volume,
    source_filter = (shelf_id == param(shelf_id)),
    compute = count(),
    target_match(id = param(shelf_id)),
    materialize_to = volumes_seen,
)]
pub const COUNT_VOLUMES: Operation<Shelf>;

/// Has no tenant of its own; public, so that what nobody sees is asked for by nobody.
#[entity(
    namespace = "diff",
    gate(shelf_id -> Shelf, "fill"),
    version(required_on_write = false),
    unique(name),
    sort = asc(name),
    belongs_to(shelf: Shelf, key = shelf_id),
    has_many(leaves: Leaf, key = volume_id, max = 2),
    pagination(default = 2, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Volume {
    #[field(primary)]
    pub id: String,
    pub shelf_id: String,
    pub name: String,
    #[field(filterable)]
    pub title: Option<String>,
    #[field(default = 0, filterable)]
    pub views: i64,
    #[field(default = false)]
    pub lent: bool,
}

#[operation(kind = "aggregate", group_by = shelf_id, compute(n = count(), views = sum(views), lent = count(lent)))]
pub const BY_SHELF: Operation<Volume>;

#[operation(kind = "transition", field = lent, from = false, to = true)]
pub const LEND: Operation<Volume>;

#[operation(kind = "increment", field = views)]
pub const OPEN_VOLUME: Operation<Volume>;

#[operation(kind = "field_update", set(shelf_id))]
pub const SHELVE: Operation<Volume>;

#[operation(kind = "upsert", match(name), set(title, shelf_id), on_create(id = param(key)), returns = "created")]
pub const CATALOGUE: Operation<Volume>;

#[operation(kind = "batch", action = "update", filter = (lent == param(lent)), set(views = 7))]
pub const STAMP_ALL: Operation<Volume>;

#[operation(kind = "batch", action = "delete", filter = (views >= param(least)))]
pub const DISCARD: Operation<Volume>;

#[operation(kind = "consume", filter = (lent == param(lent)), returns = "entity")]
pub const STEAL: Operation<Volume>;

#[operation(kind = "lookup", fields(lent = param(lent)), returns = "many", paginate)]
pub const LENT_ONES: Operation<Volume>;

#[operation(kind = "exists", fields(name = param(name)))]
pub const NAME_TAKEN: Operation<Volume>;

#[operation(kind = "search", fields(name, title))]
pub const LEAF_THROUGH: Operation<Volume>;

#[operation(
    kind = "derive",
    source(Volume, where = (lent == param(lent))),
    source(Volume, where = (views > 0), traverse(Volume, on = id)),
    merge = "union",
)]
pub const WORTH_READING: Operation<Volume>;

/// Two links away from what decides; goes with its volume.
#[entity(
    namespace = "diff",
    gate(volume_id -> Volume),
    visible(due_at.is_none() || due_at <= now()),
    belongs_to(volume: Volume, key = volume_id, on_delete = "cascade"),
    pagination(default = 2, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary)]
    pub id: i64,
    pub volume_id: String,
    pub due_at: Option<Timestamp>,
}

#[operation(kind = "batch", action = "update", filter = (volume_id == param(volume_id)), set(due_at = param(due_at)))]
pub const POSTPONE: Operation<Leaf>;

/// A tree of two above one; a branch that is closed closes what is below it.
#[entity(
    namespace = "diff",
    gate(parent_id -> Branch, depth = 2),
    visible(open || author_id == ctx(actor.id) || team != ctx(actor.id)),
    belongs_to(parent: Branch, key = parent_id),
    has_many(branches: Branch, key = parent_id, max = 2),
    pagination(default = 2, max = 200),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Branch {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
    #[field(default = true)]
    pub open: bool,
    pub author_id: Option<String>,
    pub team: Option<String>,
}

#[operation(kind = "batch", action = "update", filter = (author_id == param(author_id)), set(open = param(open)))]
pub const SHUT: Operation<Branch>;

#[operation(kind = "aggregate", compute(n = count(), open = count(open)))]
pub const BRANCHES: Operation<Branch>;
