//! Declarations of all kinds under the strictest lints.
//!
//! There is no implicit prelude, all names are imported, and one name of the prelude is shadowed.
//! So generated code must use full paths.

#![no_implicit_prelude]

use ::core::clone::Clone;
use ::core::cmp::{Eq, PartialEq};
use ::core::convert::TryInto as _;
use ::core::default::Default as _;
use ::core::fmt::Debug;
use ::core::marker::Copy;
use ::core::option::Option::{self, Some};
use ::core::result::Result::Ok;
use ::linchpin::operation::{CustomCall, CustomStore};
use ::linchpin::prelude::{
    Embedded, FieldEnum, Operation, Package, Problem, Result, Roles, Timestamp, entity, operation,
    package, projection, route,
};
use ::std::string::String;
use ::std::vec::Vec;

/// Shadows the prelude's `FnMut` to test that expansions use full paths.
pub trait FnMut {}

/// Where a post stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Value {
    /// Not seen by anybody.
    Draft,
    /// Seen by all.
    Live,
    /// No more.
    #[deprecated = "nothing is gone"]
    Gone,
}

/// Who does what.
#[derive(Clone, Copy, Debug, Roles)]
pub enum Role {
    /// Everything.
    Admin,
    /// Little.
    #[deprecated = "write `Admin`"]
    Guest,
}

/// One saved version of a post.
#[derive(Clone, Debug, Embedded)]
pub struct Revision {
    /// Its key.
    #[field(primary, default = uuid)]
    pub id: String,
    /// What changed.
    #[field(length = 1..=20, default = "none")]
    pub note: Option<String>,
    /// By whom.
    #[deprecated = "nobody says so"]
    pub by: Option<String>,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn sound(post: &Post) -> ::core::result::Result<(), Problem> {
    if post.slug == post.title {
        ::core::result::Result::Err(Problem::new("slug", "check", "is the title"))
    } else {
        Ok(())
    }
}

/// Somebody who writes.
#[entity(has_many(texts: Post, key = author_id), visible(open || id == ctx(actor.id)), action("write", open == true))]
#[derive(Clone, Debug)]
pub struct Author {
    /// The key.
    #[field(primary)]
    pub id: String,
    /// Whether everybody sees them.
    pub open: bool,
    /// How many posts there are.
    #[field(read_only, default = 0)]
    pub posts: i64,
}

/// A post.
#[entity(
    namespace = "strict",
    unique(slug),
    index(author_id, desc(created_at)),
    sort = desc(created_at),
    pagination(default = 20, max = 100),
    version,
    soft_delete(deleted_at),
    ttl("1h"),
    tenant(tenant_id),
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete), unscoped = "moderators see all"),
    belongs_to(author: Author, key = author_id, on_delete = "cascade"),
    counter(Author.posts, by = author_id, when(status == Value::Live)),
    check = sound,
    routes(
        auth = "userAuth",
        timeout = "5s",
        rate_limit = "20/s",
        get(output = Card),
        create(event = "posts.made", output_once(secret: String), idempotent),
        update(permission(requires = "write", owner_field = owner_id), guards(require_mfa)),
        delete(roles = [Role::Admin], audit = "delete"),
    ),
)]
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, non_snake_case)]
pub struct Post {
    /// The key.
    #[field(primary, default = uuid)]
    pub id: String,
    /// In URLs.
    #[field(pattern = "[a-z-]+", length = ..=80)]
    pub slug: String,
    /// The slug in small letters.
    #[field(computed(key, from(slug)))]
    pub slug_key: String,
    /// What stands on top.
    #[field(length = 1..=200, default = "untitled")]
    pub title: String,
    /// Who wrote it.
    #[field(immutable)]
    pub author_id: String,
    /// Whose it is.
    pub owner_id: String,
    /// Of whom.
    pub tenant_id: String,
    /// Where it stands.
    #[field(default = Value::Draft)]
    pub status: Value,
    /// How often it was seen.
    #[field(default = 0, range = 0..)]
    pub views: i64,
    /// A flag.
    #[field(default = false)]
    pub aA: bool,
    /// Another.
    #[field(default = false)]
    pub b: bool,
    /// A third.
    #[field(default = false)]
    pub c: bool,
    /// A fourth.
    #[field(default = false)]
    pub d: bool,
    /// Words.
    #[field(items = ..=10, unique_items, each(length = 1..=64))]
    pub tags: Vec<String>,
    /// Older versions.
    pub revisions: Vec<Revision>,
    /// What nobody needs any more.
    #[deprecated = "nobody needs it"]
    pub old: Option<String>,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// Born.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// Changed.
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// What strangers see of a post.
#[projection(Post)]
#[derive(Clone, Debug)]
pub struct Card {
    /// The key.
    pub id: String,
    /// What stands on top.
    pub title: String,
}

/// What nobody declares any more.
#[entity]
#[derive(Clone, Debug)]
#[deprecated = "write `Post`"]
pub struct Old {
    /// The key.
    #[field(primary)]
    pub id: String,
    /// A number.
    pub number: i64,
}

/// Counts.
#[operation(kind = "increment", field = number)]
#[allow(deprecated)]
pub const COUNT_OLD: Operation<Old>;

/// The post with this slug.
#[operation(kind = "lookup", fields(slug = param(slug)), filter = (status == Value::Live), returns = "one")]
pub const BY_SLUG: Operation<Post>;
/// The same.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "many", paginate, sorts(by_author(asc(author_id), desc(created_at))))]
#[deprecated = "write `by_slug`"]
pub const FIND: Operation<Post>;
/// Whether a slug is in use.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;
/// Publishes a post.
#[operation(kind = "transition", field = status, from = Value::Draft, to = Value::Live, set(title = param(title)), unscoped = "editors")]
pub const PUBLISH: Operation<Post>;
/// Counts a reader.
#[operation(kind = "increment", field = views, unscoped = "readers")]
pub const READ: Operation<Post>;
/// Says what it is called.
#[operation(
    kind = "field_update",
    set(title, views),
    partial,
    unscoped = "editors"
)]
pub const RENAME: Operation<Post>;
/// Adds a tag.
#[operation(kind = "array_push", field = tags, value = param(tag), unscoped = "readers")]
pub const TAG: Operation<Post>;
/// Resets what was seen.
#[operation(kind = "batch", action = "update", filter = (views > param(least)), set(views = 0), unscoped = "editors")]
pub const RESET: Operation<Post>;
/// Creates a post, or changes it.
#[operation(kind = "upsert", match(slug), set(title), on_create(author_id = param(author_id)), returns = "created", unscoped = "editors")]
pub const IMPORT: Operation<Post>;
/// Takes a post out.
#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity", unscoped = "editors")]
pub const TAKE: Operation<Post>;
/// Its versions.
#[operation(kind = "collection", field = revisions, operations(list, add, update, remove, set), unscoped = "editors")]
pub const REVISIONS: Operation<Post>;
/// Posts with a text.
#[operation(kind = "search", fields(title), filter = (tags.has(param(tag))), optional_params(tag), paginate)]
pub const SEARCH: Operation<Post>;
/// How posts do.
#[operation(kind = "aggregate", group_by = status, compute(total = count(), seen = sum(views), newest = max(created_at)))]
pub const STATS: Operation<Post>;
/// Posts of authors whom everybody sees.
#[operation(kind = "derive", source(Author, where = (open == param(open)), traverse(Post, on = id, select = author_id)), merge = "union")]
pub const OPEN: Operation<Post>;
/// Brings a post back.
#[operation(kind = "restore", unscoped = "editors", route(roles = [Role::Admin]))]
pub const RESTORE: Operation<Post>;
/// Says what it is given.
#[operation(kind = "custom", params(text: String, times: Option<i64>), output = String, handler(memory = echo, sqlite = echo, postgres = echo))]
pub const ECHO: Operation<Post>;

#[expect(clippy::unused_async, reason = "functions of operations are async")]
async fn echo<S: CustomStore>(
    _: CustomCall<Post, S>,
    text: String,
    times: Option<i64>,
) -> Result<String> {
    Ok(text.repeat(
        times
            .and_then(|times| times.try_into().ok())
            .unwrap_or_default(),
    ))
}

/// Says hello.
#[route(entity = Post, method = "GET", path = "hello", auth = none)]
pub async fn hello(posts: PostAdapter) -> String {
    ::std::format!("{posts:?}")
}

/// All of it.
#[allow(deprecated)]
pub static STRICT: Package = package!(
    name = "strict",
    entities = [
        entity(Author),
        entity(
            Post,
            [
                BY_SLUG, FIND, TAKEN, PUBLISH, READ, RENAME, TAG, RESET, IMPORT, TAKE, REVISIONS,
                SEARCH, STATS, OPEN, RESTORE, ECHO, hello
            ]
        ),
        entity(Old, [COUNT_OLD]),
    ],
);

/// A change of a post.
#[must_use]
pub fn patch() -> PostPatch {
    PostPatch {
        title: Some(String::new()),
        ..PostPatch::default()
    }
}
