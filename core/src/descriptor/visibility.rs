//! The declared visibility of records: soft delete, expiry, tenant, scopes, conditions and gates.

use super::{EntityDesc, FilterSpec};
use crate::Value;
use crate::field::CtxPath;

/// How deleted records are marked. They stay in the store.
#[derive(Debug, Clone, Copy)]
pub enum SoftDelete {
    /// The optional date field at this position holds the time of deletion.
    At(usize),
    /// The enum field at this position holds this value.
    Is(usize, fn() -> Value),
}

impl SoftDelete {
    /// The position of the field that holds the mark.
    pub const fn field(&self) -> usize {
        match self {
            Self::At(field) | Self::Is(field, _) => *field,
        }
    }
}

/// When records expire.
#[derive(Debug, Clone, Copy)]
pub struct Ttl {
    /// The position of the date field. A record with null never expires.
    pub field: usize,
    /// Milliseconds after the last change. `None` if the app writes the field itself.
    pub after: Option<u64>,
}

/// The tenant of records.
#[derive(Debug, Clone, Copy)]
pub struct Tenant {
    /// The position of the tenant field.
    pub field: usize,
    /// Whether authenticated callers without a tenant work on records without one.
    pub optional: bool,
    /// Whether anonymous callers read records without a tenant.
    pub anonymous_read: bool,
}

/// A field that must equal a value of the call.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The position of the field.
    pub field: usize,
    /// The source of the value.
    pub from: ScopeFrom,
    /// The routes that it applies to: `get`, `list` and so on, and names of operations. `None`
    /// means all routes.
    pub apply_to: Option<&'static [&'static str]>,
    /// The reason why it does not apply to the other routes, if a reason is required.
    pub unscoped: Option<&'static str>,
}

/// The source of a scope's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeFrom {
    /// The verified context.
    Ctx(CtxPath),
    /// A parameter of the parent path, by its name on the wire.
    Path(&'static str),
}

impl Scope {
    /// A scope on every route.
    #[doc(hidden)]
    pub const fn new(field: usize, from: ScopeFrom) -> Self {
        Self {
            field,
            from,
            apply_to: None,
            unscoped: None,
        }
    }

    /// Applies to these routes only.
    #[doc(hidden)]
    #[must_use]
    pub const fn apply_to(self, routes: &'static [&'static str]) -> Self {
        Self {
            apply_to: Some(routes),
            ..self
        }
    }

    /// Sets the reason why the scope does not apply to the other routes.
    #[doc(hidden)]
    #[must_use]
    pub const fn unscoped(self, reason: &'static str) -> Self {
        Self {
            unscoped: Some(reason),
            ..self
        }
    }

    /// Whether the scope applies to a route. It does if `apply_to` is `None`, names the route, or
    /// names the collection that the route is a method of.
    pub fn holds_on(&self, route: &str) -> bool {
        const METHODS: [&str; 5] = ["_list", "_add", "_remove", "_update", "_set"];
        let names = |name: &&str| {
            route
                .strip_prefix(*name)
                .is_some_and(|rest| rest.is_empty() || METHODS.contains(&rest))
        };
        self.apply_to.is_none_or(|routes| routes.iter().any(names))
    }
}

/// A gate: one field of a record names another record, and the record is visible only if the named
/// record is visible, too.
#[derive(Clone, Copy)]
pub struct Gate {
    /// The position of the field.
    pub field: usize,
    /// The entity of the named record; the entity itself if its records form a tree.
    pub target: &'static EntityDesc,
    /// The action that the caller must be allowed to perform on the named record, in addition to
    /// seeing it: one of the [`actions`](EntityDesc::actions) of `target`.
    pub action: Option<&'static str>,
    /// The maximum number of ancestors of a record in a tree; 0 for a gate on another entity.
    pub depth: u32,
}

impl std::fmt::Debug for Gate {
    /// Prints only the name of the other entity, because a gate can form a cycle.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            field,
            target,
            action,
            depth,
        } = self;
        f.debug_struct("Gate")
            .field("field", field)
            .field("target", &target.name)
            .field("action", action)
            .field("depth", depth)
            .finish()
    }
}

#[doc(hidden)]
impl Gate {
    /// A gate on another entity.
    pub const fn new(field: usize, target: &'static EntityDesc) -> Self {
        Self {
            field,
            target,
            action: None,
            depth: 0,
        }
    }

    /// Requires that the caller may perform this action on the named record.
    #[must_use]
    pub const fn action(self, action: &'static str) -> Self {
        Self {
            action: Some(action),
            ..self
        }
    }

    /// A gate within a tree.
    #[must_use]
    pub const fn depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }
}

/// An action, and the records on which a caller may perform it.
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// `read`.
    pub name: &'static str,
    /// The condition on the record. A comparison with a context value is false if the context lacks
    /// the value.
    pub filter: FilterSpec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_on_a_collection_covers_all_its_methods() {
        let scope = Scope::new(0, ScopeFrom::Path("docId")).apply_to(&["get", "members"]);
        for (route, holds) in [
            ("get", true),
            ("members_add", true),
            ("members_list", true),
            ("members_of", false),
            ("list", false),
        ] {
            assert_eq!(scope.holds_on(route), holds, "{route}");
        }
        assert!(Scope::new(0, ScopeFrom::Path("docId")).holds_on("anything"));
    }
}
