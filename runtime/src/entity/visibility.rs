//! Who sees a record, as declared: soft delete, expiry, tenant and data scope.

use crate::Value;
use crate::filter::CtxPath;

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
        Self { field, from, apply_to: None, unscoped: None }
    }

    /// On these routes only.
    #[doc(hidden)]
    #[must_use]
    pub const fn apply_to(self, routes: &'static [&'static str]) -> Self {
        Self { apply_to: Some(routes), ..self }
    }

    /// Why not on the others.
    #[doc(hidden)]
    #[must_use]
    pub const fn unscoped(self, reason: &'static str) -> Self {
        Self { unscoped: Some(reason), ..self }
    }

    /// Whether it holds on a route: one that is named, or a method of a collection that is.
    pub fn holds_on(&self, route: &str) -> bool {
        const METHODS: [&str; 5] = ["_list", "_add", "_remove", "_update", "_set"];
        let names = |name: &&str| route.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || METHODS.contains(&rest));
        self.apply_to.is_none_or(|routes| routes.iter().any(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_in_scope_with_all_its_methods() {
        let scope = Scope::new(0, ScopeFrom::Path("docId")).apply_to(&["get", "members"]);
        for (route, holds) in [("get", true), ("members_add", true), ("members_list", true), ("members_of", false), ("list", false)] {
            assert_eq!(scope.holds_on(route), holds, "{route}");
        }
        assert!(Scope::new(0, ScopeFrom::Path("docId")).holds_on("anything"));
    }
}
