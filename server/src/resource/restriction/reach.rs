//! The reach of a call, and the parts of a restriction that a route lifts.

use crate::entity::{Link, Relation};

/// The records that a call can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Records of the caller's tenant and scopes.
    Caller = 0,
    /// Records without a tenant, of a caller that has none.
    NoTenant = 1,
    /// The application itself: every tenant and scope.
    System = 2,
    /// The application itself, with deleted records as well.
    Deleted = 3,
    /// As [`Reach::NoTenant`], of an anonymous caller, for an entity with gates that lead to
    /// entities with tenants.
    Anonymous = 4,
    /// As [`Reach::System`], without gates: effects of a deletion reach records whose gate refers
    /// to the deleted record.
    Effect = 5,
    /// The application itself within one tenant: every scope there.
    Within = 6,
}

impl Reach {
    /// Whether the call is on behalf of a caller, not of the application itself.
    pub(in crate::resource) fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::NoTenant | Self::Anonymous)
    }
}

/// The restriction of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteRestriction {
    /// The positions of the scopes that apply.
    pub(super) scopes: Vec<usize>,
    /// Whether anonymous callers may read records without a tenant.
    pub(super) anonymous: bool,
    /// Whether only deleted records are within reach.
    pub(super) deleted: bool,
    /// Whether the route only reads, if gates distinguish between reads and changes.
    pub(super) reads: bool,
}

impl RouteRestriction {
    /// The same restriction, for deleted records if `deleted` is true.
    pub(crate) fn of_deleted(self, deleted: bool) -> Self {
        Self { deleted, ..self }
    }
}

/// The routes whose conditions apply to records of another entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    /// One record, with the conditions of `get`.
    Get,
    /// Many records, with the conditions of `list`.
    List,
    /// One record that another record will refer to, with the conditions that `get` has for callers
    /// who change records.
    Hold,
}

impl Included {
    pub(crate) fn of(relation: &Relation) -> Self {
        match relation.link {
            Link::BelongsTo { .. } => Self::Get,
            Link::HasMany { .. } => Self::List,
        }
    }

    /// The name of its statements. No route has such a name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "include get",
            Self::List => "include list",
            Self::Hold => "hold",
        }
    }

    /// The route whose restriction applies, and whether the records are in the response.
    pub(super) fn named(name: &str) -> Option<(&'static str, bool)> {
        match name {
            "include get" => Some(("get", true)),
            "include list" => Some(("list", true)),
            "hold" => Some(("get", false)),
            _ => None,
        }
    }
}
