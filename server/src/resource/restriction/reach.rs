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
    /// Deleted records as well.
    Deleted = 3,
    /// As [`Reach::NoTenant`], of an anonymous caller, for an entity with gates to tenants.
    Anonymous = 4,
    /// As [`Reach::System`], without gates: effects of a deletion reach records whose gate refers
    /// to the deleted record.
    Effect = 5,
    /// The application itself within one tenant: every scope there.
    Within = 6,
}

impl Reach {
    /// Whether it is a caller, not the application itself.
    pub(in crate::resource) fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::NoTenant | Self::Anonymous)
    }
}

/// The restriction of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteRestriction {
    /// Positions in the entity's scopes.
    pub(super) scopes: Vec<usize>,
    /// Anonymous callers read records without a tenant.
    pub(super) anonymous: bool,
    /// Deleted records, and no others.
    pub(super) deleted: bool,
    /// Whether the route only reads, if gates distinguish between reads and changes.
    pub(super) reads: bool,
}

impl RouteRestriction {
    /// Of deleted records, if so.
    pub(crate) fn of_deleted(self, deleted: bool) -> Self {
        Self { deleted, ..self }
    }
}

/// The routes whose conditions apply to records of another entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    /// One record, with the conditions of `get`.
    Get,
    /// Many, as `list` shows them.
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
