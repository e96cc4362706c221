//! Entities with gates, trees, conditions and actions.
#![allow(missing_docs)] // test entities

use linchpin::operation::{CustomCall, MemoryCall, SqlStore};
use linchpin::prelude::*;

/// The parent of children: visible to every caller, or to its owner only.
#[entity(
    soft_delete(deleted_at),
    visible(open || owner_id == ctx(actor.id)),
    action("write", closed == false || owner_id == ctx(actor.id)),
    has_many(children: Child, key = parent_id, max = 3),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Parent {
    #[field(primary)]
    pub id: String,
    #[field(default = true)]
    pub open: bool,
    #[field(default = false)]
    pub closed: bool,
    pub owner_id: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Parent>;

#[derive(Clone, Debug, Embedded)]
pub struct Member {
    #[field(default = uuid)]
    pub id: String,
    pub name: String,
}

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
}

/// The child in the tests.
#[entity(
    gate(parent_id -> Parent),
    unique(slug),
    index(title),
    pagination(default = 5, max = 50),
    belongs_to(parent: Parent, key = parent_id),
    has_many(remarks: Remark, key = child_id),
    version(required_on_write = false),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Child {
    #[field(primary)]
    pub id: String,
    #[field(filterable)]
    pub parent_id: String,
    pub slug: String,
    #[field(default = "t")]
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    pub tags: Vec<String>,
    pub members: Vec<Member>,
}

#[operation(kind = "aggregate", compute(n = count(), views = sum(views)))]
pub const STATS: Operation<Child>;
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Child>;
#[operation(kind = "lookup", fields(title = param(title)), returns = "many", paginate)]
pub const BY_TITLE: Operation<Child>;
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Child>;
#[operation(kind = "search", fields(slug, title))]
pub const FIND: Operation<Child>;
#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Child>;
#[operation(kind = "increment", field = views)]
pub const BUMP: Operation<Child>;
#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Child>;
#[operation(kind = "field_update", set(parent_id))]
pub const MOVE: Operation<Child>;
#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Child>;
#[operation(kind = "collection", field = members, operations(list, add, remove, update, set), max_items = 3)]
pub const MEMBERS: Operation<Child>;
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(views = 9))]
pub const SET_ALL: Operation<Child>;
#[operation(kind = "batch", action = "delete", filter = (title == param(title)))]
pub const CLEAR: Operation<Child>;
#[operation(kind = "consume", filter = (title == param(title)), returns = "entity")]
pub const TAKE: Operation<Child>;
#[operation(kind = "upsert", match(slug), set(title), on_create(id = param(id), parent_id = param(parent_id)), returns = "created")]
pub const ENSURE: Operation<Child>;
#[operation(kind = "derive", source(Child, where = (title == param(title))), source(Child, where = (slug == param(title))), merge = "union")]
pub const FEED: Operation<Child>;

/// SQL of the app with the row-level filter: the number of visible records.
#[operation(kind = "custom", http(method = "POST", path = "tally"), output = String, handler(memory = tally_memory, sqlite = tally, postgres = tally))]
pub const TALLY: Operation<Child>;

async fn tally_memory(call: MemoryCall<Child>) -> Result<String> {
    Ok(call.visible().await?.len().to_string())
}

async fn tally<S: SqlStore>(call: CustomCall<Child, S>) -> Result<String> {
    let seen = call
        .sql("SELECT count(*) AS n FROM {visible}")
        .rows()
        .await?;
    let changed = call
        .sql("UPDATE {table} SET views = views WHERE {guard} AND views < $1")
        .bind(1_i64)
        .execute()
        .await?;
    let seen = seen[0].get::<i64>("n")?.to_string();
    if seen == changed.to_string() {
        Ok(seen)
    } else {
        Err(Error::internal(
            "`{visible}` and `{guard}` match different records",
        ))
    }
}

/// A record that is visible through a child, and so through the parent of that child.
#[entity(gate(child_id -> Child), index(child_id), belongs_to(child: Child, key = child_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Remark {
    #[field(primary)]
    pub id: String,
    pub child_id: String,
    pub text: Option<String>,
}

/// A folder in a tree: visible if all of its ancestors are.
#[entity(gate(parent_id -> Folder, depth = 2), visible(open || owner_id == ctx(actor.id)), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Folder {
    #[field(primary)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<String>,
    #[field(default = true)]
    pub open: bool,
    pub owner_id: Option<String>,
}

/// A record that is visible through a tree.
#[entity(gate(folder_id -> Folder), index(folder_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary)]
    pub id: String,
    pub folder_id: String,
}

/// A record that is visible to callers who may write to the parent; seeing the parent is not
/// enough.
#[entity(gate(parent_id -> Parent, "write"), index(parent_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Entry {
    #[field(primary)]
    pub id: String,
    pub parent_id: String,
}

/// A record that is hidden before its publication time; drafts are visible to their author only.
#[entity(visible((deliver_at.is_none() || deliver_at <= now()) && (status == Status::Live || author != ctx(actor.id))), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Timed {
    #[field(primary)]
    pub id: String,
    pub deliver_at: Option<Timestamp>,
    #[field(default = Status::Live)]
    pub status: Status,
    pub author: Option<String>,
}

pub static SEEN: Package = package!(
    name = "seen",
    entities = [
        entity(Parent, [RESTORE]),
        entity(
            Child,
            [
                STATS, BY_SLUG, BY_TITLE, SLUG_TAKEN, FIND, PUBLISH, BUMP, RETITLE, MOVE, TAG,
                MEMBERS, SET_ALL, CLEAR, TAKE, ENSURE, FEED, TALLY
            ]
        ),
        entity(Remark, []),
        entity(Folder, []),
        entity(Leaf, []),
        entity(Entry, []),
        entity(Timed, []),
    ],
);
