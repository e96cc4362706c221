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

/// The status of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Value {
    /// Visible to the author only.
    Draft,
    /// Visible to everyone.
    Live,
    /// Removed.
    #[deprecated = "delete the post"]
    Gone,
}

/// The roles of users.
#[derive(Clone, Copy, Debug, Roles)]
pub enum Role {
    /// May change every post.
    Admin,
    /// May read posts.
    #[deprecated = "write `Admin`"]
    Guest,
}

/// One saved version of a post.
#[derive(Clone, Debug, Embedded)]
pub struct Revision {
    /// The key.
    #[field(primary, default = uuid)]
    pub id: String,
    /// A note about the change.
    #[field(length = 1..=20, default = "none")]
    pub note: Option<String>,
    /// The name of the editor.
    #[deprecated = "no longer recorded"]
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

/// An author of posts.
#[entity(has_many(texts: Post, key = author_id), visible(open || id == ctx(actor.id)), action("write", open == true))]
#[derive(Clone, Debug)]
pub struct Author {
    /// The key.
    #[field(primary)]
    pub id: String,
    /// Whether everyone sees the author.
    pub open: bool,
    /// The number of live posts.
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
    /// The name in URLs.
    #[field(pattern = "[a-z-]+", length = ..=80)]
    pub slug: String,
    /// The slug in lower case.
    #[field(computed(key, from(slug)))]
    pub slug_key: String,
    /// The title.
    #[field(length = 1..=200, default = "untitled")]
    pub title: String,
    /// The id of the author.
    #[field(immutable)]
    pub author_id: String,
    /// The id of the owner.
    pub owner_id: String,
    /// The id of the tenant.
    pub tenant_id: String,
    /// The status.
    #[field(default = Value::Draft)]
    pub status: Value,
    /// The number of views.
    #[field(default = 0, range = 0..)]
    pub views: i64,
    /// A flag.
    #[field(default = false)]
    pub aA: bool,
    /// A second flag.
    #[field(default = false)]
    pub b: bool,
    /// A third flag.
    #[field(default = false)]
    pub c: bool,
    /// A fourth flag.
    #[field(default = false)]
    pub d: bool,
    /// Tags.
    #[field(items = ..=10, unique_items, each(length = 1..=64))]
    pub tags: Vec<String>,
    /// The older versions.
    pub revisions: Vec<Revision>,
    /// A field that is no longer used.
    #[deprecated = "no longer used"]
    pub old: Option<String>,
    /// The time of the deletion.
    pub deleted_at: Option<Timestamp>,
    /// The time of creation.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// The time of the last change.
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// The public part of a post.
#[projection(Post)]
#[derive(Clone, Debug)]
pub struct Card {
    /// The key.
    pub id: String,
    /// The title.
    pub title: String,
}

/// A deprecated entity.
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

/// Increases the number.
#[operation(kind = "increment", field = number)]
#[allow(deprecated)]
pub const COUNT_OLD: Operation<Old>;

/// The post with this slug.
#[operation(kind = "lookup", fields(slug = param(slug)), filter = (status == Value::Live), returns = "one")]
pub const BY_SLUG: Operation<Post>;
/// The posts with this slug, page by page.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "many", paginate, sorts(by_author(asc(author_id), desc(created_at))))]
#[deprecated = "write `by_slug`"]
pub const FIND: Operation<Post>;
/// Whether a slug is in use.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;
/// Publishes a post.
#[operation(kind = "transition", field = status, from = Value::Draft, to = Value::Live, set(title = param(title)), unscoped = "editors")]
pub const PUBLISH: Operation<Post>;
/// Counts a view.
#[operation(kind = "increment", field = views, unscoped = "readers")]
pub const READ: Operation<Post>;
/// Changes the title.
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
/// Resets the views.
#[operation(kind = "batch", action = "update", filter = (views > param(least)), set(views = 0), unscoped = "editors")]
pub const RESET: Operation<Post>;
/// Creates or updates the post with this slug.
#[operation(kind = "upsert", match(slug), set(title), on_create(author_id = param(author_id)), returns = "created", unscoped = "editors")]
pub const IMPORT: Operation<Post>;
/// Removes a post and returns it.
#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity", unscoped = "editors")]
pub const TAKE: Operation<Post>;
/// The older versions of a post.
#[operation(kind = "collection", field = revisions, operations(list, add, update, remove, set), unscoped = "editors")]
pub const REVISIONS: Operation<Post>;
/// The posts whose title contains a text.
#[operation(kind = "search", fields(title), filter = (tags.has(param(tag))), optional_params(tag), paginate)]
pub const SEARCH: Operation<Post>;
/// Statistics of posts by status.
#[operation(kind = "aggregate", group_by = status, compute(total = count(), seen = sum(views), newest = max(created_at)))]
pub const STATS: Operation<Post>;
/// The posts of authors with this value of `open`.
#[operation(kind = "derive", source(Author, where = (open == param(open)), traverse(Post, on = id, select = author_id)), merge = "union")]
pub const OPEN: Operation<Post>;
/// Restores a deleted post.
#[operation(kind = "restore", unscoped = "editors", route(roles = [Role::Admin]))]
pub const RESTORE: Operation<Post>;
/// Repeats a text.
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

/// Returns the adapter as text.
#[route(entity = Post, method = "GET", path = "hello", auth = none)]
pub async fn hello(posts: PostAdapter) -> String {
    ::std::format!("{posts:?}")
}

/// The package of all entities.
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
