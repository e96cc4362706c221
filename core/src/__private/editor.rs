//! Names that editors complete in option lists and kinds. Compiled code does not use them.

#![allow(unexpected_cfgs)] // rust-analyzer sets its own

/// Lets editors resolve the words in a declaration: fields are members of a record, options are
/// names in a module below.
#[cfg(rust_analyzer)]
#[doc(hidden)]
#[macro_export]
macro_rules! __editor {
    ($entity:path { $($field:ident)* } $($module:ident { $($word:ident)* })*) => {
        const _: () = {
            $(
                #[allow(unused_imports)]
                use $crate::__private::editor::$module::{$($word as _),*};
            )*
            #[allow(dead_code, deprecated)]
            fn named(record: &$entity) {
                $(let _ = &record.$field;)*
            }
        };
    };
}

/// Expands to nothing outside of rust-analyzer.
#[cfg(not(rust_analyzer))]
#[doc(hidden)]
#[macro_export]
macro_rules! __editor {
    ($($tokens:tt)*) => {};
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* #[allow(non_upper_case_globals)] pub const $name: () = ();)*
    };
}

/// Options of `#[entity(..)]`.
pub mod entity {
    names! {
        /// `name = "Post"`
        name
        /// `namespace = "blog"`
        namespace
        /// `path = "news/posts"`
        path
        /// `storage_name = "posts"`
        storage_name
        /// `index(author_id, desc(created_at))`, `index(due_at, global)`
        index
        /// `unique(slug)`, `unique(slug, global)`
        unique
        /// `sort = desc(created_at)`, `sort(desc(pinned), desc(created_at))`
        sort
        /// `pagination(default = 50, max = 200, unbounded_lookup = false)`
        pagination
        /// `version`, `version(field = rev, required_on_write = false)`
        version
        /// `check = path`: a rule over the whole record
        check
        /// `rename_from = "old_posts"`, `["newer", "older"]`
        rename_from
        /// `stores(sqlite, memory)`
        stores
        /// `routes(auth = none, delete(roles = ["admin"]))`
        routes
        /// `soft_delete(deleted_at)`, `soft_delete(status = Status::Gone)`
        soft_delete
        /// `ttl("1h")`, `ttl(expires_at)`
        ttl
        /// `tenant(tenant_id)`, `tenant(tenant_id, optional, anonymous_read)`
        tenant
        /// `scope(owner_id = ctx(actor.id), apply_to(get, list))`
        scope
        /// `parent_path = "documents/{doc_id}"`
        parent_path
        /// `belongs_to(author: User, key = author_id, on_delete = "cascade")`
        belongs_to
        /// `has_many(comments: Comment, key = post_id, max = 20)`
        has_many
        /// `search(provider = "tantivy", fields(title = 2, body = 1))`
        search
        /// `gate(container_id -> Container, "write", depth = 3)`
        gate
        /// `visible(status == Status::Live || author_id == ctx(actor.id))`
        visible
        /// `action("write", closed == false)`
        action
        /// `counter(Topic.answers, by = topic_id)`
        counter
    }
}

/// Options of `#[field(..)]`.
pub mod field {
    names! {
        /// The key of the record
        primary
        /// Keeps its first value
        immutable
        /// Written only by code and operations, never by clients
        read_only
        /// Accepted from clients, never in a response
        write_only
        /// Only for code of the server: neither in bodies nor in responses
        private
        /// The list filters by it
        filterable
        /// The list sorts by it
        sortable
        /// Clients may supply the value instead of the generated default
        client_set
        /// Not in logs
        sensitive
        /// A list that bodies must contain; without this option, an omitted list is empty
        required
        /// `default = uuid`, `now`, `ctx(actor.id)`, a literal or a path
        default
        /// `computed = path`, `computed(path, from(a, b))`
        computed
        /// `on_update = now`
        on_update
        /// `column = "a"`
        column
        /// `rename_from = "b"`, `["newer", "older"]`
        rename_from
        /// `transform = path`: the function that migrations run
        transform
        /// `length = 1..=200`
        length
        /// `range = 0..`
        range
        /// `pattern = "[a-z]+"`
        pattern
        /// `format = "email"`
        format
        /// `items = ..=10`
        items
        /// Refuses equal items
        unique_items
        /// `each(length = 1..=64)`
        each
        /// `one_of("a", "b")`
        one_of
    }
}

/// The kinds of operations.
pub mod kinds {
    names! { lookup exists transition restore increment field_update array_push array_pull array_set batch upsert consume collection search aggregate computed_aggregate derive custom }
}

macro_rules! options {
    ($($kind:ident { $($name:ident)* })*) => {
        $(
            /// Options of `#[operation(..)]` of this kind.
            pub mod $kind {
                names! {
                    $($name)*
                    /// `route(auth = none)`
                    route
                    /// `unscoped = "reason"`
                    unscoped
                }
            }
        )*
    };
}

options! {
    // Completed while the declaration does not contain the kind yet.
    operation { kind }
    lookup { kind fields returns sort sorts limit paginate filter strict_params optional_params deleted }
    exists { kind fields check }
    transition { kind field from to set returns already }
    restore { kind }
    increment { kind field by }
    field_update { kind set partial nullable }
    array_push { kind field value dedupe }
    array_pull { kind field value }
    array_set { kind field value dedupe }
    batch { kind action filter set atomic returns limit sort optional_params }
    upsert { kind set on_create returns }
    consume { kind filter returns expiry }
    collection { kind field operations identify_by max_items }
    search { kind fields filter paginate optional_params use_search_provider }
    aggregate { kind compute group_by filter optional_params }
    computed_aggregate { kind source target source_filter compute target_match materialize_to atomic }
    derive { kind source merge flatten post_filter optional_params }
    custom { kind http params input output handler sql }
}
