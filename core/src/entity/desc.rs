//! Descriptors: everything an entity declares, as data that can be printed, compared and
//! const-evaluated.
//!
//! `#[entity]` writes them; the runtime and the checks read them. All are plain statics.

use super::{Action, Gate, Kind, Paging, Relation, Scope, SoftDelete, Summary, Tenant, Ttl};
use crate::filter::{CtxPath, FilterSpec};
use crate::policy::PolicyDesc;
use crate::route::RouteSpec;
use crate::row::Row;
use crate::{DecodeError, Problem, Value, ValueRef};

/// A rule over a whole record.
pub type RecordCheck = fn(&dyn Row) -> Result<(), Problem>;

/// An entity as declared.
#[derive(Debug)]
pub struct EntityDesc {
    /// `Post`.
    pub name: &'static str,
    /// `blog`; prefixes the storage name, never the URL.
    pub namespace: Option<&'static str>,
    /// The route segments below the package mount (and the parent path), without a leading slash:
    /// `posts`.
    pub path: &'static str,
    /// What stands before `path`: `documents/{docId}`. Each parameter is bound by a scope.
    pub parent_path: Option<&'static str>,
    /// Table, collection or key prefix: `blog_posts`.
    pub storage_name: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// In declaration order; then a generated version field, then a hidden expiry.
    pub fields: &'static [FieldDesc],
    /// Index of the primary key in `fields`.
    pub primary: usize,
    /// Non-unique indexes; stores append the primary key to each.
    pub indexes: &'static [IndexDesc],
    /// Uniques besides the primary key.
    pub uniques: &'static [UniqueDesc],
    /// The default sort, without fields the primary key's; that breaks ties, in the direction of
    /// the last field.
    pub sort: &'static [SortDesc],
    /// Page sizes.
    pub pagination: Pagination,
    /// How pages of its list are asked for.
    pub paging: Paging,
    /// Optimistic concurrency.
    pub version: Option<VersionDesc>,
    /// How deleted records are marked; without it they are removed.
    pub soft_delete: Option<SoftDelete>,
    /// When records expire.
    pub ttl: Option<Ttl>,
    /// Whose records they are.
    pub tenant: Option<Tenant>,
    /// What further must equal a value of the call.
    pub scope: &'static [Scope],
    /// What further holds of records that a caller sees; what it compares with the context is false
    /// where the context has no value.
    pub visible: Option<FilterSpec>,
    /// What records name must be visible as well.
    pub gates: &'static [Gate],
    /// What a gate of another entity may ask for.
    pub actions: &'static [Action],
    /// What else its records name, or are named by.
    pub relations: &'static [Relation],
    /// What records of other entities keep of its records.
    pub summaries: &'static [Summary],
    /// Who searches it instead of the store.
    pub search: Option<SearchDesc>,
    /// A rule over the whole record, run on create and on the merged record of an update.
    pub check: Option<RecordCheck>,
    /// `routes.defaults`.
    pub defaults: PolicyDesc,
    /// create, list, get, update, delete, in this order.
    pub routes: [PolicyDesc; 5],
    /// Where those are, below `path`, in the same order.
    pub mounts: [RouteSpec; 5],
    /// Stores named by the entity; empty means any configured one.
    pub stores: &'static [&'static str],
    /// Earlier storage name. Nothing is renamed by it: stores name it in what they say of a schema
    /// that differs, and it is kept for migrations.
    pub rename_from: Option<&'static str>,
    /// Where the entity is declared.
    pub at: SourceLine,
    /// Whether the declaration is wrong, which it says itself: those that name the entity do not
    /// say it again.
    #[doc(hidden)]
    pub poisoned: bool,
}

impl EntityDesc {
    /// The primary key's field.
    pub fn primary_field(&self) -> &'static FieldDesc {
        &self.fields[self.primary]
    }

    /// The policy of its list, with what holds for all of its routes.
    #[doc(hidden)]
    pub fn list_policy(&self) -> PolicyDesc {
        let [_, list, ..] = self.routes;
        list.or(self.defaults)
    }

    /// Index of the field with this wire name.
    pub fn field_by_wire(&self, wire: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.wire == wire)
    }
}

/// A place in the user's source.
#[derive(Clone, Copy, Debug)]
pub struct SourceLine {
    /// As `file!()` gives it.
    pub file: &'static str,
    /// One-based.
    pub line: u32,
}

impl SourceLine {
    /// Where a function is called that is marked with `#[track_caller]`, as this one is.
    #[track_caller]
    #[doc(hidden)]
    pub const fn here() -> Self {
        let caller = std::panic::Location::caller();
        Self {
            file: caller.file(),
            line: caller.line(),
        }
    }
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A field as declared.
#[derive(Debug, Clone, Copy)]
pub struct FieldDesc {
    /// `created_at`.
    pub name: &'static str,
    /// `createdAt`.
    pub wire: &'static str,
    /// `created_at` unless `column` says otherwise.
    pub column: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be null.
    pub optional: bool,
    /// What an absent value becomes on create.
    pub default: DefaultDesc,
    /// `primary`, `read_only` and so on.
    pub flags: Flags,
    /// Constraints on its values.
    pub rules: &'static Rules,
    /// Earlier name, kept for migrations: at run time nobody reads it.
    pub rename_from: Option<&'static str>,
    /// Whether a value reads as the field's Rust type, for types that ask more than their kind
    /// says: `Json<T>` and items.
    pub reads: Option<fn(ValueRef<'_>) -> bool>,
    /// How its value follows from the rest of the record, if it does.
    pub computed: Option<ComputedDesc>,
}

/// How the value of a field follows from the rest of its record.
#[derive(Debug, Clone, Copy)]
pub struct ComputedDesc {
    /// The value; the record's computed fields are blank.
    pub value: fn(&dyn Row) -> Result<Value, DecodeError>,
    /// What it holds while the value is worked out.
    pub blank: fn() -> ValueRef<'static>,
    /// The positions of the fields that it follows from; without any, of all that are not computed.
    pub from: &'static [usize],
}

impl FieldDesc {
    /// A plain field of the given names and type, for `..` in expansions.
    pub const fn new(
        name: &'static str,
        wire: &'static str,
        column: &'static str,
        kind: Kind,
        optional: bool,
    ) -> Self {
        Self {
            name,
            wire,
            column,
            doc: "",
            kind,
            optional,
            default: DefaultDesc::None,
            flags: Flags::NONE,
            rules: &Rules::NONE,
            rename_from: None,
            reads: None,
            computed: None,
        }
    }

    /// Whether a response may hold it.
    pub const fn readable(&self) -> bool {
        !self.flags.has(Flags::PRIVATE.or(Flags::WRITE_ONLY))
    }

    /// Where a problem with its value is told of: nowhere when it is private, since clients are not
    /// to know of it.
    #[doc(hidden)]
    pub const fn told(&self) -> &'static str {
        if self.flags.has(Flags::PRIVATE) {
            ""
        } else {
            self.wire
        }
    }

    /// Whether a create body may hold it.
    pub const fn creatable(&self) -> bool {
        !self.server_owned() && !self.flags.has(Flags::PRIVATE)
    }

    /// Whether an update body may hold it.
    pub const fn updatable(&self) -> bool {
        self.creatable() && !self.flags.has(Flags::IMMUTABLE.or(Flags::PRIMARY))
    }

    /// Whether a body must hold it, where bodies hold it at all: nothing says what it is when it is
    /// left out.
    pub const fn is_required(&self) -> bool {
        !self.optional && !self.default.is_some() && !self.empty_when_absent()
    }

    /// Whether leaving it out means the empty list.
    const fn empty_when_absent(&self) -> bool {
        matches!(self.kind, Kind::StringArray | Kind::Items(_))
            && !self.optional
            && !self.default.is_some()
            && !self.flags.has(Flags::REQUIRED)
    }

    /// What leaving it out means where no default says so: the empty list, if anything.
    #[doc(hidden)]
    pub fn empty(&self) -> Option<Value> {
        match self.kind {
            _ if !self.empty_when_absent() => None,
            Kind::StringArray => Some(Value::Strings(Vec::new())),
            _ => Some(Value::Json("[]".to_owned())),
        }
    }

    /// A field no client may write: `read_only`, on-update dates, the version, and generated values
    /// that are not `client_set`.
    pub const fn server_owned(&self) -> bool {
        self.flags
            .has(Flags::READ_ONLY.or(Flags::ON_UPDATE).or(Flags::VERSION))
            || (self.default.is_generated() && !self.flags.has(Flags::CLIENT_SET))
    }
}

/// What an absent value becomes on create.
#[derive(Debug, Clone, Copy)]
pub enum DefaultDesc {
    /// Required, or null when optional.
    None,
    /// A fresh uuid v7.
    Uuid,
    /// A fresh cuid2.
    Cuid,
    /// The call's instant.
    Now,
    /// A literal, checked by rustc against the field's type.
    Literal(fn() -> Value),
    /// A value of the verified context; the field never changes.
    Ctx(CtxPath),
}

impl DefaultDesc {
    /// `uuid`, `cuid`, `now` and `ctx(..)`: values the server makes.
    pub const fn is_generated(&self) -> bool {
        matches!(self, Self::Uuid | Self::Cuid | Self::Now | Self::Ctx(_))
    }

    /// Whether there is a default at all.
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Boolean options of a field, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u32);

impl Flags {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The primary key.
    pub const PRIMARY: Self = Self(1);
    /// Accepted on create only.
    pub const IMMUTABLE: Self = Self(1 << 1);
    /// Returned, never accepted.
    pub const READ_ONLY: Self = Self(1 << 2);
    /// Accepted, never returned.
    pub const WRITE_ONLY: Self = Self(1 << 3);
    /// Server side only.
    pub const PRIVATE: Self = Self(1 << 4);
    /// Usable as a filter of the list route.
    pub const FILTERABLE: Self = Self(1 << 5);
    /// Usable as a sort of the list route.
    pub const SORTABLE: Self = Self(1 << 6);
    /// A client may supply the generated default's value.
    pub const CLIENT_SET: Self = Self(1 << 7);
    /// Values never appear in logs or error texts.
    pub const SENSITIVE: Self = Self(1 << 8);
    /// Set to `now` by every mutation.
    pub const ON_UPDATE: Self = Self(1 << 9);
    /// The version counter.
    pub const VERSION: Self = Self(1 << 10);
    /// A list that must be sent: leaving it out is no empty list.
    pub const REQUIRED: Self = Self(1 << 11);

    /// A filter and a sort of the list route.
    pub const LISTED: Self = Self::FILTERABLE.or(Self::SORTABLE);

    /// Union.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Difference.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether any of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Constraints on a field's values.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Unicode scalar values, inclusive.
    pub length: (Option<u32>, Option<u32>),
    /// Inclusive bounds of integers, numbers and dates (as a `Timestamp` value).
    pub range: (Option<Bound>, Option<Bound>),
    /// A linear-time regular expression that must match the whole value.
    pub pattern: Option<&'static str>,
    /// A named format such as `email`.
    pub format: Option<&'static str>,
    /// Items of a list, inclusive.
    pub items: (Option<u32>, Option<u32>),
    /// No two equal items.
    pub unique_items: bool,
    /// Rules of each element of a string array.
    pub each: Option<&'static Rules>,
    /// Closed set of texts (string fields).
    pub one_of: &'static [&'static str],
    /// Closed set of integers.
    pub one_of_int: &'static [i64],
}

/// A bound of `range`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// For integers, and for dates in milliseconds since the epoch.
    Int(i64),
    /// For numbers.
    Float(f64),
}

impl Rules {
    /// No constraint.
    pub const NONE: Self = Self {
        length: (None, None),
        range: (None, None),
        pattern: None,
        format: None,
        items: (None, None),
        unique_items: false,
        each: None,
        one_of: &[],
        one_of_int: &[],
    };
}

/// A non-unique index over fields, by position.
#[derive(Debug, Clone, Copy)]
pub struct IndexDesc {
    /// Field and direction.
    pub fields: &'static [SortDesc],
}

/// A unique over fields, by position.
#[derive(Debug, Clone, Copy)]
pub struct UniqueDesc {
    /// Field positions.
    pub fields: &'static [usize],
    /// Across tenants.
    pub global: bool,
}

/// A field position with a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortDesc {
    /// Position of the field.
    pub field: usize,
    /// Descending.
    pub desc: bool,
}

/// Page sizes of an entity, in records.
#[derive(Debug, Clone, Copy)]
pub struct Pagination {
    /// Used when a request names no limit.
    pub default_limit: u32,
    /// Greater limits are clamped to it.
    pub max_limit: u32,
    /// Whether a lookup without limit answers everything.
    pub unbounded_lookup: bool,
}

impl Pagination {
    /// 50, at most 200, unbounded lookups.
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
    /// The fields of its index, by position, and how much a hit in each counts.
    pub fields: &'static [(usize, f32)],
    /// Whether the store searches while the provider cannot.
    pub fallback: bool,
}

/// Optimistic concurrency.
#[derive(Debug, Clone, Copy)]
pub struct VersionDesc {
    /// Position of the counter.
    pub field: usize,
    /// Whether update and delete demand `If-Match`.
    pub required_on_write: bool,
}
