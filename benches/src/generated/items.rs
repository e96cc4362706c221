//! An entity with an operation of each kind that `posts.rs` does not use.
#![allow(clippy::unused_async)] // functions of custom operations are async by their signature

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum State {
    Open,
    Done,
}

/// An order line: a product and its quantity.
#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(length = 1..=40)]
    pub sku: String,
    #[field(range = 1..=1_000_000_000)]
    pub quantity: i64,
}

/// An item.
#[entity(unique(code), index(owner, desc(created_at)), sort = desc(created_at), pagination(default = 20, max = 100))]
#[derive(Clone, Debug)]
pub struct Item {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=40)]
    pub code: String,
    pub owner: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(default = State::Open)]
    pub state: State,
    pub due_at: Option<Timestamp>,
    #[field(default = 0)]
    pub quantity: i64,
    pub tags: Vec<String>,
    pub lines: Vec<Line>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// An owner of items.
#[entity]
#[derive(Clone, Debug)]
pub struct Owner {
    #[field(primary)]
    pub id: String,
    #[field(default = 0)]
    pub items: i64,
}

#[operation(kind = "lookup", fields(code = param(code)), returns = "one")]
pub const BY_CODE: Operation<Item>;

#[operation(kind = "lookup", fields(owner = param(owner)), returns = "many", paginate)]
pub const OF_OWNER: Operation<Item>;

#[operation(kind = "exists", fields(code = param(code)))]
pub const CODE_TAKEN: Operation<Item>;

#[operation(kind = "increment", field = quantity)]
pub const SOLD: Operation<Item>;

#[operation(kind = "field_update", set(due_at), nullable)]
pub const RESCHEDULE: Operation<Item>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Item>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Item>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Item>;

#[operation(kind = "upsert", match(code), set(owner, title, quantity))]
pub const IMPORT: Operation<Item>;

#[operation(kind = "search", fields(title), paginate)]
pub const FIND: Operation<Item>;

#[operation(kind = "collection", field = lines, operations(update), identify_by = sku)]
pub const LINES: Operation<Item>;

#[operation(kind = "consume", filter = (code == param(code)), returns = "entity")]
pub const REDEEM: Operation<Item>;

#[operation(kind = "derive", source(Item, where = (owner == param(owner))), source(Item, where = (code == param(code))), merge = "union")]
pub const RELATED: Operation<Item>;

#[operation(kind = "aggregate", filter = (owner == param(owner)), group_by = state, compute(n = count(), quantity = sum(quantity)))]
pub const BY_STATE: Operation<Item>;

#[operation(kind = "batch", action = "update", filter = (owner == param(owner)), set(quantity = 5))]
pub const RESTOCK: Operation<Item>;

#[operation(
    kind = "custom",
    http(method = "GET", path = "top/{owner}"),
    params(owner: String),
    output = Vec<Item>,
    handler(sqlite = top, postgres = top),
)]
pub const TOP: Operation<Item>;

#[operation(
    kind = "computed_aggregate",
    source = Item,
    source_filter = (owner == param(id)),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = items,
)]
pub const RECOUNT: Operation<Owner>;

async fn top<S: SqlStore>(call: CustomCall<Item, S>, owner: String) -> Result<Records<Item>> {
    Ok(call
        .records("owner = $1")
        .bind(owner)
        .order_by("quantity DESC")
        .limit(5))
}

pub static ITEMS: Package = package!(
    name = "items",
    entities = [
        entity(
            Item,
            [
                BY_CODE, OF_OWNER, CODE_TAKEN, SOLD, RESCHEDULE, TAG, UNTAG, RETAG, IMPORT, FIND,
                LINES, REDEEM, RELATED, BY_STATE, RESTOCK, TOP
            ]
        ),
        entity(Owner, [RECOUNT]),
    ],
);
