//! Who sees a record, as declared: soft delete, expiry, tenant, data scope, conditions and gates.

use super::EntityDesc;
use crate::Value;
use crate::filter::{CtxPath, FilterSpec};

/// How deleted records are marked; they stay stored.
#[derive(Debug, Clone, Copy)]
pub enum SoftDelete {
    /// The instant of deletion stands in the optional date at a position.
    At(usize),
    /// The enum at a position holds this value.
    Is(usize, fn() -> Value),
}

impl SoftDelete {
    /// Position of the field that holds the mark.
    pub const fn field(&self) -> usize {
        match self {
            Self::At(field) | Self::Is(field, _) => *field,
        }
    }
}

/// When records expire.
#[derive(Debug, Clone, Copy)]
pub struct Ttl {
    /// Position of the date; null never expires.
    pub field: usize,
    /// Milliseconds after the last change; without it the field is the user's own.
    pub after: Option<u64>,
}

/// Whose records they are.
#[derive(Debug, Clone, Copy)]
pub struct Tenant {
    /// Position of the field.
    pub field: usize,
    /// Known callers without a tenant work on records without one.
    pub optional: bool,
    /// Anonymous callers read records without a tenant.
    pub anonymous_read: bool,
}

/// A field that must equal a value of the call.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// Position of the field.
    pub field: usize,
    /// Where the value comes from.
    pub from: ScopeFrom,
    /// The routes it holds on: `get`, `list` and so on, and names of operations; `None` is all.
    pub apply_to: Option<&'static [&'static str]>,
    /// Why it does not hold on others, where that needs a reason.
    pub unscoped: Option<&'static str>,
}

/// Where the value of a scope comes from.
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

    /// On these routes only.
    #[doc(hidden)]
    #[must_use]
    pub const fn apply_to(self, routes: &'static [&'static str]) -> Self {
        Self {
            apply_to: Some(routes),
            ..self
        }
    }

    /// Why not on the others.
    #[doc(hidden)]
    #[must_use]
    pub const fn unscoped(self, reason: &'static str) -> Self {
        Self {
            unscoped: Some(reason),
            ..self
        }
    }

    /// Whether it holds on a route: one that is named, or a method of a collection that is.
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

/// A record that must be visible for this one to be: the one that a field names.
#[derive(Clone, Copy)]
pub struct Gate {
    /// Position of the field.
    pub field: usize,
    /// Whose record it names; the entity itself, where its records form a tree.
    pub target: &'static EntityDesc,
    /// What the caller must be allowed on it, beyond seeing it: one of its
    /// [`actions`](EntityDesc::actions).
    pub action: Option<&'static str>,
    /// Most records above one in a tree; 0 for a gate onto another entity.
    pub depth: u32,
}

impl std::fmt::Debug for Gate {
    /// Names the other entity only: it may be the one that is being printed.
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
    /// A gate onto another entity.
    pub const fn new(field: usize, target: &'static EntityDesc) -> Self {
        Self {
            field,
            target,
            action: None,
            depth: 0,
        }
    }

    /// With something that the caller must be allowed.
    #[must_use]
    pub const fn action(self, action: &'static str) -> Self {
        Self {
            action: Some(action),
            ..self
        }
    }

    /// Within a tree.
    #[must_use]
    pub const fn depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }
}

/// Something that may be done to a record, and to which records a caller may do it, as far as a
/// condition says.
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// `read`.
    pub name: &'static str,
    /// Which records; what it compares with the context is false where the context has no value.
    pub filter: FilterSpec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_in_scope_with_all_its_methods() {
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
