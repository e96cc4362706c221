//! The descriptor of an entity.

use super::{Action, FilterSpec, Gate, Paging, Relation, Scope, SoftDelete, Summary, Tenant, Ttl};
use crate::Problem;
use crate::field::{FieldDesc, SourceLine};
use crate::policy::PolicyDesc;
use crate::route::RouteSpec;
use crate::row::Row;

/// A rule over a whole record.
pub type RecordCheck = fn(&dyn Row) -> Result<(), Problem>;

/// An entity as declared.
#[derive(Debug)]
pub struct EntityDesc {
    /// `Post`.
    pub name: &'static str,
    /// `blog`; prefixes the storage name, never the URL.
    pub namespace: Option<&'static str>,
    /// The route segments below the mount of the package (and the parent path), without a leading
    /// slash: `posts`.
    pub path: &'static str,
    /// The path before `path`: `documents/{docId}`. A scope binds each parameter.
    pub parent_path: Option<&'static str>,
    /// The name of the table or collection, or the key prefix: `blog_posts`.
    pub storage_name: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The fields in declaration order, then a generated version field, then a hidden expiry field.
    pub fields: &'static [FieldDesc],
    /// The index of the primary key in `fields`.
    pub primary: usize,
    /// The non-unique indexes. Stores append the primary key to each.
    pub indexes: &'static [IndexDesc],
    /// The unique constraints besides the primary key.
    pub uniques: &'static [UniqueDesc],
    /// The default sort; without fields, the order of the primary key. The primary key breaks ties,
    /// in the direction of the last field.
    pub sort: &'static [SortDesc],
    /// The page sizes.
    pub pagination: Pagination,
    /// The parameters with which calls of the list route select a page.
    pub paging: Paging,
    /// Optimistic concurrency.
    pub version: Option<VersionDesc>,
    /// How deleted records are marked. Without it, records are removed.
    pub soft_delete: Option<SoftDelete>,
    /// When records expire.
    pub ttl: Option<Ttl>,
    /// The tenant of records.
    pub tenant: Option<Tenant>,
    /// The fields that must equal a value of the call.
    pub scope: &'static [Scope],
    /// A further condition for records that a caller sees. A comparison with a context value is
    /// false if the context lacks the value.
    pub visible: Option<FilterSpec>,
    /// The gates: records that must be visible as well.
    pub gates: &'static [Gate],
    /// The actions that a gate of another entity may require.
    pub actions: &'static [Action],
    /// The relations to other entities.
    pub relations: &'static [Relation],
    /// The counters of this entity's records. Records of other entities store them.
    pub summaries: &'static [Summary],
    /// The search provider that searches instead of the store.
    pub search: Option<SearchDesc>,
    /// A rule over the whole record. It runs on create, and on the merged record of an update.
    pub check: Option<RecordCheck>,
    /// `routes.defaults`.
    pub defaults: PolicyDesc,
    /// The policies of create, list, get, update and delete, in this order.
    pub routes: [PolicyDesc; 5],
    /// The routes of these five below `path`, in the same order.
    pub mounts: [RouteSpec; 5],
    /// The stores that the entity names. Empty means any configured store.
    pub stores: &'static [&'static str],
    /// The earlier storage names, newest first. They are for migrations. Stores also mention them
    /// when they report a different schema.
    pub rename_from: &'static [&'static str],
    /// The source location of the declaration.
    pub at: SourceLine,
    /// Whether the declaration has an error that is already reported. Declarations that name the
    /// entity do not report it again.
    #[doc(hidden)]
    pub poisoned: bool,
}

impl EntityDesc {
    /// Returns the field of the primary key.
    pub fn primary_field(&self) -> &'static FieldDesc {
        &self.fields[self.primary]
    }

    /// Returns the policy of the list route, merged with the defaults of all routes.
    #[doc(hidden)]
    pub fn list_policy(&self) -> PolicyDesc {
        let [_, list, ..] = self.routes;
        list.or(self.defaults)
    }

    /// Returns the index of the field with this wire name.
    pub fn field_by_wire(&self, wire: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.wire == wire)
    }
}

#[doc(hidden)]
impl EntityDesc {
    /// An entity whose first field is the primary key, without any options.
    pub const fn new(
        name: &'static str,
        path: &'static str,
        storage_name: &'static str,
        fields: &'static [FieldDesc],
    ) -> Self {
        Self {
            name,
            namespace: None,
            path,
            parent_path: None,
            storage_name,
            doc: "",
            fields,
            primary: 0,
            indexes: &[],
            uniques: &[],
            sort: &[],
            pagination: Pagination::DEFAULT,
            paging: Paging::Limit,
            version: None,
            soft_delete: None,
            ttl: None,
            tenant: None,
            scope: &[],
            visible: None,
            gates: &[],
            actions: &[],
            relations: &[],
            summaries: &[],
            search: None,
            check: None,
            defaults: PolicyDesc::INHERIT,
            routes: [PolicyDesc::INHERIT; 5],
            mounts: RouteSpec::CRUD,
            stores: &[],
            rename_from: &[],
            at: SourceLine { file: "", line: 1 },
            poisoned: false,
        }
    }
}

/// A non-unique index over fields, by position.
#[derive(Debug, Clone, Copy)]
pub struct IndexDesc {
    /// The fields with their directions.
    pub fields: &'static [SortDesc],
    /// Whether the index has no prefix of the tenant and scopes, for statements over all tenants.
    pub global: bool,
}

impl IndexDesc {
    /// The same index for statements over all tenants.
    #[must_use]
    pub const fn global(mut self) -> Self {
        self.global = true;
        self
    }
}

/// A unique constraint over fields, by position.
#[derive(Debug, Clone, Copy)]
pub struct UniqueDesc {
    /// The positions of the fields.
    pub fields: &'static [usize],
    /// Whether values are unique across tenants.
    pub global: bool,
}

/// A field position with a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortDesc {
    /// The position of the field.
    pub field: usize,
    /// Whether the order is descending.
    pub desc: bool,
}

/// The page sizes of an entity, in records.
#[derive(Debug, Clone, Copy)]
pub struct Pagination {
    /// The limit if a request names none.
    pub default_limit: u32,
    /// The maximum limit. Greater limits are clamped to it.
    pub max_limit: u32,
    /// Whether a lookup without a limit returns all records.
    pub unbounded_lookup: bool,
}

impl Pagination {
    /// A default of 50, a maximum of 200, and unbounded lookups.
    pub const DEFAULT: Self = Self {
        default_limit: 50,
        max_limit: 200,
        unbounded_lookup: true,
    };
}

/// A search provider, by the name under which the app registers it.
#[derive(Debug, Clone, Copy)]
pub struct SearchDesc {
    /// Its name.
    pub provider: &'static str,
    /// The fields of the index, by position, each with the weight of a match.
    pub fields: &'static [(usize, f32)],
    /// Whether the store searches while the provider is unavailable.
    pub fallback: bool,
}

/// Optimistic concurrency.
#[derive(Debug, Clone, Copy)]
pub struct VersionDesc {
    /// The position of the counter.
    pub field: usize,
    /// Whether update and delete require `If-Match`.
    pub required_on_write: bool,
}
