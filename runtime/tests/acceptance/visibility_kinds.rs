//! Fixture of the isolation sweep: records that are visible through others, and kinds of operations
//! that reach records neither by a list nor by a key.
#![allow(missing_docs, dead_code)] // a fixture, which is called over HTTP alone

use linchpin::entity::Entity;
use linchpin::operation::{CustomCall, CustomStore, MemoryCall, SqlStore};
use linchpin::prelude::*;

use crate::visibility_fixture::{Account, AccountAdapter, Sheet, SheetAdapter, Task, TaskAdapter};

/// The container of slips, visible to its owner only.
#[entity(visible(owner_id == ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Vault {
    #[field(primary)]
    pub id: String,
    #[field(default = ctx(actor.id))]
    pub owner_id: String,
}

/// A slip without an owner field. A caller sees it only if the caller sees its vault.
#[entity(gate(vault_id -> Vault), unique(slug), index(title), version(required_on_write = false), routes(idempotent))]
#[derive(Clone, Debug)]
pub struct Slip {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub vault_id: String,
    pub slug: String,
    pub title: String,
    #[field(default = 0)]
    pub views: i64,
    pub tags: Vec<String>,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const SLIPS_BY_TITLE: Operation<Slip>;
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const SLIP_BY_SLUG: Operation<Slip>;
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLIP_TAKEN: Operation<Slip>;
#[operation(kind = "increment", field = views)]
pub const SLIP_VIEW: Operation<Slip>;
#[operation(kind = "field_update", set(vault_id))]
pub const SLIP_MOVE: Operation<Slip>;
#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const SLIP_TAG: Operation<Slip>;
#[operation(kind = "aggregate", compute(n = count()), filter = (title == param(title)))]
pub const SLIP_STATS: Operation<Slip>;
#[operation(kind = "search", fields(title, slug))]
pub const SLIP_FIND: Operation<Slip>;
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(views = 9))]
pub const SLIP_MARK: Operation<Slip>;
#[operation(kind = "batch", action = "delete", filter = (slug == param(slug)))]
pub const SLIP_CLEAR: Operation<Slip>;
#[operation(kind = "consume", filter = (title == param(title)), returns = "boolean")]
pub const SLIP_TAKE: Operation<Slip>;

#[operation(
    kind = "derive",
    source(Task, where = (slug == param(slug))),
    source(Task, where = (title == param(title)), traverse(Task, on = whole_id)),
    merge = "union",
)]
pub const TASK_FEED: Operation<Task>;

#[operation(
    kind = "derive",
    source(Account, where = (slug == param(slug))),
    source(Account, where = (title == param(title)), traverse(Account, on = parent_id)),
    merge = "concat",
)]
pub const ACCOUNT_FEED: Operation<Account>;

#[operation(kind = "derive", source(Slip, where = (title == param(title)), select = slug), merge = "union")]
pub const SLIP_FEED: Operation<Slip>;

#[operation(kind = "derive", source(Sheet, where = (slug == param(slug))), merge = "first", route(auth = none))]
pub const SHEET_FEED: Operation<Sheet>;

/// Counts records, and writes the number to a record that a parameter identifies, or to the
/// caller's own record with the slug `own`.
macro_rules! recounts {
    ($($name:ident $entity:ident ($($target:tt)*) $($atomic:ident)?),* $(,)?) => {$(
        #[operation(
            kind = "computed_aggregate",
            source = $entity,
            source_filter = (title == param(title)),
            compute = count(),
            target_match($($target)*),
            materialize_to = views,
            $($atomic)?
        )]
        pub const $name: Operation<$entity>;
    )*};
}
recounts!(
    TASK_RECOUNT Task (slug = param(slug)),
    TASK_RECOUNT_OWN Task (slug = "own"),
    ACCOUNT_RECOUNT Account (id = param(id)) atomic,
    ACCOUNT_RECOUNT_OWN Account (slug = "own") atomic,
    SLIP_RECOUNT Slip (slug = param(slug)),
    SLIP_RECOUNT_OWN Slip (slug = "own"),
);

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const ACCOUNT_RESTORE: Operation<Account>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", deleted = "only", route(roles = ["admin"]))]
pub const ACCOUNT_LOST: Operation<Account>;

/// Entities whose custom operations find and change a record by its slug.
trait Named: Entity {
    fn slug(&self) -> &str;
}

macro_rules! functions {
    ($($entity:ident $tally:ident $peek:ident),*) => {$(
        impl Named for $entity {
            fn slug(&self) -> &str {
                &self.slug
            }
        }

        #[operation(
            kind = "custom",
            http(method = "POST"),
            params(slug: String),
            output = i64,
            handler(memory = tally_memory, sqlite = tally, postgres = tally),
        )]
        pub const $tally: Operation<$entity>;

        /// Returns the key from the request. The response contains the record with this key only if
        /// the caller may see it.
        #[operation(
            kind = "custom",
            http(method = "GET"),
            params(id: String),
            output = Option<$entity>,
            handler(memory = peek, sqlite = peek, postgres = peek),
        )]
        pub const $peek: Operation<$entity>;
    )*};
}
functions!(Task TASK_TALLY TASK_PEEK, Account ACCOUNT_TALLY ACCOUNT_PEEK, Slip SLIP_TALLY SLIP_PEEK);

async fn tally_memory<E: Named>(call: MemoryCall<E>, slug: String) -> Result<i64> {
    let seen = call
        .visible()
        .await?
        .iter()
        .filter(|record| record.slug() == slug)
        .count();
    Ok(i64::try_from(seen).unwrap_or_default())
}

/// SQL with the row-level filter changes exactly the visible records.
async fn tally<E: Named, S: SqlStore>(call: CustomCall<E, S>, slug: String) -> Result<i64> {
    let seen = call
        .sql("SELECT count(*) AS n FROM {visible} WHERE slug = $1")
        .bind(slug.clone())
        .rows()
        .await?[0]
        .get::<i64>("n")?;
    let changed = call
        .sql("UPDATE {table} SET views = views WHERE slug = $1 AND {guard}")
        .bind(slug)
        .execute()
        .await?;
    if seen.to_string() == changed.to_string() {
        Ok(seen)
    } else {
        Err(Error::internal(
            "`{visible}` and `{guard}` match different records",
        ))
    }
}

#[allow(clippy::unused_async)] // functions of custom operations are async by their signature
async fn peek<E: Named, S: CustomStore>(_: CustomCall<E, S>, id: String) -> Result<Option<String>> {
    Ok(Some(id))
}
