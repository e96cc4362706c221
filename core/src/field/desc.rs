//! Descriptors of fields: their declaration as data.

use super::{CtxPath, Kind, TransformDesc};
use crate::row::Row;
use crate::{DecodeError, Value, ValueRef};

/// A location in the source code.
#[derive(Clone, Copy, Debug)]
pub struct SourceLine {
    /// The file, as `file!()` returns it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

impl SourceLine {
    /// Returns the location of the caller of a function with `#[track_caller]`, like this one.
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

/// A declared field.
#[derive(Debug, Clone, Copy)]
pub struct FieldDesc {
    /// `created_at`.
    pub name: &'static str,
    /// `createdAt`.
    pub wire: &'static str,
    /// The column name: `created_at` unless `column` sets another.
    pub column: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The type of the field.
    pub kind: Kind,
    /// Whether the field may be null.
    pub optional: bool,
    /// The value if a create call omits the field.
    pub default: DefaultDesc,
    /// The boolean options: `primary`, `read_only` and so on.
    pub flags: Flags,
    /// The constraints on values.
    pub rules: &'static Rules,
    /// The earlier names, newest first. They are for migrations and are not used at run time.
    pub rename_from: &'static [&'static str],
    /// The function that a migration runs for the field: it converts old values, or fills the
    /// field.
    pub transform: Option<&'static TransformDesc>,
    /// The line of the declaration in the file of
    /// [`EntityDesc::at`](crate::entity::EntityDesc::at); 0 if the field is generated or is a member
    /// of an item.
    pub line: u32,
    /// Checks whether a value can be read as the field's Rust type. For types with more constraints
    /// than their kind: `Json<T>` and items.
    pub reads: Option<fn(ValueRef<'_>) -> bool>,
    /// How the value is computed from the rest of the record, if it is.
    pub computed: Option<ComputedDesc>,
}

/// How a field is computed from the rest of its record.
#[derive(Debug, Clone, Copy)]
pub struct ComputedDesc {
    /// The function as the field names it: `keys::slug_key`.
    pub name: &'static str,
    /// The SHA-256 digest of the function's tokens, as 64 lower-case hexadecimal digits. Empty if
    /// the function has no `#[computed]`: then a migration cannot see that the function changes.
    pub body: &'static str,
    /// Computes the value. The computed fields of the record are blank during the call.
    pub value: fn(&dyn Row) -> Result<Value, DecodeError>,
    /// The placeholder while the value is computed.
    pub blank: fn() -> ValueRef<'static>,
    /// The positions of the fields that the value depends on. Empty means all fields that are not
    /// computed.
    pub from: &'static [usize],
}

impl FieldDesc {
    /// A plain field with these names and this type, for `..` in expansions.
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
            rename_from: &[],
            transform: None,
            line: 0,
            reads: None,
            computed: None,
        }
    }

    /// Whether a response may contain the field.
    pub const fn readable(&self) -> bool {
        !self.flags.has(Flags::PRIVATE.or(Flags::WRITE_ONLY))
    }

    /// The field name for error messages. Empty if the field is private, because clients must not
    /// know that it exists.
    #[doc(hidden)]
    pub const fn name_in_errors(&self) -> &'static str {
        if self.flags.has(Flags::PRIVATE) {
            ""
        } else {
            self.wire
        }
    }

    /// Whether the body of a create call may contain the field.
    pub const fn creatable(&self) -> bool {
        !self.server_owned() && !self.flags.has(Flags::PRIVATE)
    }

    /// Whether the body of an update call may contain the field.
    pub const fn updatable(&self) -> bool {
        self.creatable() && !self.flags.has(Flags::IMMUTABLE.or(Flags::PRIMARY))
    }

    /// Whether a body that can contain the field must contain it, because an omitted field has no
    /// value.
    pub const fn is_required(&self) -> bool {
        !self.optional && !self.default.is_some() && !self.empty_when_absent()
    }

    /// Whether an omitted field means the empty list.
    const fn empty_when_absent(&self) -> bool {
        matches!(self.kind, Kind::StringArray | Kind::Items(_))
            && !self.optional
            && !self.default.is_some()
            && !self.flags.has(Flags::REQUIRED)
    }

    /// The value of an omitted field without a default: the empty list, or none.
    #[doc(hidden)]
    pub fn empty(&self) -> Option<Value> {
        match self.kind {
            _ if !self.empty_when_absent() => None,
            Kind::StringArray => Some(Value::Strings(Vec::new())),
            _ => Some(Value::Json("[]".to_owned())),
        }
    }

    /// Whether no client may write the field: `read_only`, on-update dates, the version, and
    /// generated values without `client_set`.
    pub const fn server_owned(&self) -> bool {
        self.flags
            .has(Flags::READ_ONLY.or(Flags::ON_UPDATE).or(Flags::VERSION))
            || (self.default.is_generated() && !self.flags.has(Flags::CLIENT_SET))
    }
}

/// The value if a create call omits the field.
#[derive(Debug, Clone, Copy)]
pub enum DefaultDesc {
    /// No default: the field is required, or null if it is optional.
    None,
    /// A new UUID v7.
    Uuid,
    /// A new CUID2.
    Cuid,
    /// The time of the call.
    Now,
    /// A literal. The compiler checks it against the field's type.
    Literal(fn() -> Value),
    /// A value of the verified context. The field never changes.
    Ctx(CtxPath),
}

impl DefaultDesc {
    /// Whether the server generates the value: `uuid`, `cuid`, `now` and `ctx(..)`.
    pub const fn is_generated(&self) -> bool {
        matches!(self, Self::Uuid | Self::Cuid | Self::Now | Self::Ctx(_))
    }

    /// Whether the field has a default.
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The boolean options of a field, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u32);

impl Flags {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The primary key.
    pub const PRIMARY: Self = Self(1);
    /// Accepted only on create.
    pub const IMMUTABLE: Self = Self(1 << 1);
    /// Returned, never accepted.
    pub const READ_ONLY: Self = Self(1 << 2);
    /// Accepted, never returned.
    pub const WRITE_ONLY: Self = Self(1 << 3);
    /// Server side only.
    pub const PRIVATE: Self = Self(1 << 4);
    /// Usable as a filter in the list route.
    pub const FILTERABLE: Self = Self(1 << 5);
    /// Usable as a sort in the list route.
    pub const SORTABLE: Self = Self(1 << 6);
    /// Clients may supply the value instead of the generated default.
    pub const CLIENT_SET: Self = Self(1 << 7);
    /// The value never appears in logs or error messages.
    pub const SENSITIVE: Self = Self(1 << 8);
    /// Every mutation sets the field to `now`.
    pub const ON_UPDATE: Self = Self(1 << 9);
    /// The version counter.
    pub const VERSION: Self = Self(1 << 10);
    /// A list that must be sent. Omitting it does not mean the empty list.
    pub const REQUIRED: Self = Self(1 << 11);

    /// Usable as a filter and as a sort in the list route.
    pub const LISTED: Self = Self::FILTERABLE.or(Self::SORTABLE);

    /// Returns the union.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the difference.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether any of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The constraints on a field's values.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The length in Unicode scalar values, inclusive.
    pub length: (Option<u32>, Option<u32>),
    /// The inclusive bounds of integers, numbers and dates (in milliseconds since the epoch).
    pub range: (Option<Bound>, Option<Bound>),
    /// A linear-time regular expression that must match the whole value.
    pub pattern: Option<&'static str>,
    /// A named format such as `email`.
    pub format: Option<&'static str>,
    /// The number of items of a list, inclusive.
    pub items: (Option<u32>, Option<u32>),
    /// Whether equal items are refused.
    pub unique_items: bool,
    /// The rules of each element of a string array.
    pub each: Option<&'static Rules>,
    /// The allowed texts of a string field.
    pub one_of: &'static [&'static str],
    /// The allowed integers.
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
