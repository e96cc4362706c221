//! The procedural macros of Linchpin. Use them through the `linchpin` crate, which re-exports them.
//!
//! Every macro takes four steps: parse (tokens to plain structs), model (resolved), check (all
//! rules, all errors), expand (infallible). This file is the index.

use proc_macro::TokenStream;

mod diagnostics;
mod editor;
mod entity;
mod expr;
mod fragments;
mod lints;
mod list;
#[cfg(test)]
mod mutation_tests;
mod names;
mod operation;
mod options;
mod package;
mod policy;
mod projection;
mod readable;
mod repair;
mod roles;
mod route;
mod schema;
#[cfg(test)]
mod snapshot;

/// Whether the runtime serves: without it there is nothing for an adapter to call, and nothing that
/// mounts a route.
const SERVER: bool = cfg!(feature = "server");

/// Declares a struct as an entity: a record type with CRUD, an adapter and routes.
///
/// Put it above other attributes of the struct. Beside the struct it makes, for `Post`: the module
/// `post` with a marker per field, `PostCreate`, `PostPatch`, `PostListQuery` and `PostAdapter`.
///
/// ```ignore
/// #[entity(namespace = "blog", unique(slug), index(author_id, desc(created_at)), sort = desc(created_at))]
/// #[derive(Clone, Debug)]
/// pub struct Post {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     #[field(pattern = "[a-z0-9-]+")]
///     pub slug: String,
///     #[field(immutable)]
///     pub author_id: String,
///     #[field(default = now)]
///     pub created_at: Timestamp,
/// }
/// ```
///
/// # Options of the entity
/// * `name = "Post"`, `namespace = "blog"`, `path = "news/posts"`, `storage_name = "posts"`,
///   `rename_from = "old_posts"` (for migrations: nothing is renamed at run time, and a table that
///   is there under the old name stops the start)
/// * `index(a, desc(b))`, `unique(a, b)`, `unique(a, global)`, each as often as needed;
///   `sort = desc(a)`, `sort(desc(a), asc(b))` with an index that has them
/// * `pagination(default = 50, max = 200, unbounded_lookup = false)`
/// * `version`, `version(field = rev, required_on_write = false)`: a counter for `If-Match`, added
///   to the struct
/// * `soft_delete(deleted_at)`, `soft_delete(status = Status::Gone)`: deleted records are marked
///   and stay stored
/// * `ttl("1h")` after the last change, `ttl(expires_at)`: when records expire
/// * `tenant(tenant_id)`, `tenant(tenant_id, optional, anonymous_read)`: whose records they are
/// * `scope(owner_id = ctx(actor.id))`, `scope(doc_id = param(doc_id))`, with `apply_to(get, list)`
///   and `unscoped = "reason"`: what further must equal a value of the call; as often as needed
/// * `visible(status == Status::Live || author_id == ctx(actor.id))`: what must hold of a record
///   for its caller to see it
/// * `gate(container_id -> Container)`, `gate(container_id -> Container, "write")`,
///   `gate(parent_id -> Folder, depth = 3)`: the record that must be seen for this one to be; as
///   often as needed
/// * `action("write", closed == false)`: what gates of other entities may ask for
/// * `counter(Topic.answers, by = topic_id, when(status == Status::Live), min = 1, code =
///   "last_one")`: a field of another entity that tells how many records name its record; as often
///   as needed
/// * `parent_path = "documents/{doc_id}"`: what stands before the path
/// * `check = path`: a rule over the whole record, `fn(&Post) -> Result<(), Problem>`
/// * `stores(sqlite, memory)`: where it may live; any configured store when left out
/// * `routes(auth = none, delete(roles = ["admin"]), get(disabled))`: keys for all routes, and for
///   one of `create`, `list`, `get`, `update`, `delete`: `auth`, `roles`,
///   `guards(require_mfa, require_step_up(300))`, `permission(requires = "write", or =
///   ["moderate"], owner_field = author_id, resource = container_id, hide)`,
///   `middleware = [path, "name"]`, `disabled`, `max_body = "2MiB"`, `timeout = "5s"`,
///   `output_once(secret: String)`: members that the answer of one call has and no later one;
///   `list(paging = "page")`: pages by their number; of one route `method = "PUT"`,
///   `path = "{id}/card"`, `description = ".."`
///
/// # Options of a field
/// * `primary`, `immutable`, `read_only`, `write_only`, `private`, `filterable`, `sortable`,
///   `client_set`, `sensitive`
/// * `default = uuid`, `cuid`, `now`, `ctx(actor.id)`, a literal or the path of a const or variant;
///   `on_update = now`
/// * `computed = path`, `computed(path, from(a, b))`: a value that follows from the rest of the
///   record, `fn(&Post) -> String`, stored and kept on every way that changes it
/// * `column = "a"`, `rename_from = "b"` (checked and kept for migrations; at run time it does
///   nothing)
/// * `length = 1..=200`, `range = 0..`, `pattern = ".."`, `format = "email"`, `items = ..=10`,
///   `unique_items`, `each(length = 1..=64)`, `one_of("a", "b")`
///
/// A field whose type is `Option` may be null.
#[proc_macro_attribute]
pub fn entity(args: TokenStream, item: TokenStream) -> TokenStream {
    entity::run(&args.into(), &item.into()).into()
}

/// Makes an enum of unit variants a field type. On the wire a variant is its name in snake_case, or
/// `#[field(rename = "..")]`. The enum must be `Copy`.
#[proc_macro_derive(FieldEnum, attributes(field))]
pub fn field_enum(item: TokenStream) -> TokenStream {
    entity::field_enum(&item.into()).into()
}

/// Makes a struct an item: `Vec` of it is a field type. Its fields take the same `#[field(..)]` as
/// an entity's.
#[proc_macro_derive(Embedded, attributes(field))]
pub fn embedded(item: TokenStream) -> TokenStream {
    entity::embedded(&item.into()).into()
}

/// Makes an enum of unit variants the roles of an app: `roles = [Role::Admin]` in a policy. In
/// tokens and actors a role is the name of its variant in snake_case, or `#[role(rename = "..")]`;
/// `Role::Admin.as_str()` tells it.
#[proc_macro_derive(Roles, attributes(role))]
pub fn roles(item: TokenStream) -> TokenStream {
    roles::run(&item.into()).into()
}

/// Declares a const as an operation of its entity, in the crate of the entity: it adds a method to
/// the entity's adapter.
#[proc_macro_attribute]
pub fn operation(args: TokenStream, item: TokenStream) -> TokenStream {
    operation::run(args.into(), item.into()).into()
}

/// The second step of `#[operation]` and `#[projection]`, called by the schema macro of the entity.
#[doc(hidden)]
#[proc_macro]
pub fn __operation(input: TokenStream) -> TokenStream {
    schema::expand(input.into()).into()
}

/// Makes a struct a projection of an entity, in the crate of the entity: `output = PostCard` in a
/// policy answers its fields.
///
/// Its fields have the names and types of the entity's, so that `PostCard::from(post)` makes one in
/// code.
///
/// ```ignore
/// #[projection(Post)]
/// pub struct PostCard {
///     pub id: String,
///     pub title: String,
/// }
/// ```
#[proc_macro_attribute]
pub fn projection(args: TokenStream, item: TokenStream) -> TokenStream {
    projection::run(args.into(), item.into()).into()
}

/// Builds a package: a list of entities with their operations.
#[proc_macro]
pub fn package(input: TokenStream) -> TokenStream {
    package::run(input.into()).into()
}

/// Mounts a function as an extra route of an entity.
#[proc_macro_attribute]
pub fn route(args: TokenStream, item: TokenStream) -> TokenStream {
    route::run(args.into(), item.into()).into()
}
