//! How far a call reaches, and what a route may leave out of the guard.

use crate::entity::{Link, Relation};

/// How far a call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Records of the caller's tenant and scopes.
    Caller = 0,
    /// The same, of a caller without a tenant: records that have none.
    NoTenant = 1,
    /// The application itself: every tenant and scope.
    System = 2,
    /// Deleted records as well.
    Deleted = 3,
    /// Records of a caller without a tenant whom nobody knows, where gates make a difference
    /// between those.
    Anonymous = 4,
    /// As [`Reach::System`], whatever stands behind the records: what follows from a deletion
    /// follows what has been deleted.
    Followed = 5,
    /// The application itself within one tenant: every scope there.
    Within = 6,
}

impl Reach {
    /// Whether somebody calls, and not the application.
    pub(in crate::resource) fn is_caller(self) -> bool {
        matches!(self, Self::Caller | Self::NoTenant | Self::Anonymous)
    }
}

/// What a route is allowed to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteGuard {
    /// Positions in the entity's scopes.
    pub(super) scopes: Vec<usize>,
    /// Anonymous callers read records without a tenant.
    pub(super) anonymous: bool,
    /// Deleted records, and no others.
    pub(super) deleted: bool,
    /// It changes nothing, where gates make a difference between that and the rest.
    pub(super) reads: bool,
}

impl RouteGuard {
    /// Of deleted records, if so.
    pub(crate) fn of_deleted(self, deleted: bool) -> Self {
        Self { deleted, ..self }
    }
}

/// The routes as which records of another entity are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Included {
    /// One record, as `get` shows it.
    Get,
    /// Many, as `list` shows them.
    List,
    /// One that another record is about to name, as `get` shows it to whoever may change something.
    Hold,
}

impl Included {
    pub(crate) fn of(relation: &Relation) -> Self {
        match relation.link {
            Link::BelongsTo { .. } => Self::Get,
            Link::HasMany { .. } => Self::List,
        }
    }

    /// What its statements are kept under; no route has such a name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "include get",
            Self::List => "include list",
            Self::Hold => "hold",
        }
    }

    /// The route whose guard holds, and whether it is read for its own sake.
    pub(super) fn named(name: &str) -> Option<(&'static str, bool)> {
        match name {
            "include get" => Some(("get", true)),
            "include list" => Some(("list", true)),
            "hold" => Some(("get", false)),
            _ => None,
        }
    }
}
