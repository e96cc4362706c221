//! Const assertions of `package!(audited = [..])`: the package requires `audit` on routes with
//! certain permissions.

use super::EntityEntry;
use super::duplicates::sentence::Sentence;
use crate::operation::{Method, OpSpec};
use crate::policy::{PermissionDesc, PolicyDesc};

/// Fails to compile if a generated route changes records, requires one of the actions and is not
/// audited.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_audited(entry: &EntityEntry, actions: &[&str]) {
    const WRITES: [(usize, &str); 3] = [(0, "create"), (3, "update"), (4, "delete")];
    let mut i = 0;
    while i < WRITES.len() {
        let (at, name) = WRITES[i];
        assert_policy_audited(entry, name, &entry.desc.routes[at], actions);
        i += 1;
    }
}

/// Fails to compile if an operation changes records, requires one of the actions and is not
/// audited.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_operation_audited(entry: &EntityEntry, index: usize, actions: &[&str]) {
    let spec = entry.operations[index];
    let mut part = 0;
    while part < spec.parts.len() {
        check_operation_routes(entry, spec.parts[part], actions);
        part += 1;
    }
    if spec.parts.is_empty() {
        check_operation_routes(entry, spec, actions);
    }
}

#[track_caller]
const fn check_operation_routes(entry: &EntityEntry, spec: &OpSpec, actions: &[&str]) {
    let mut route = 0;
    while route < spec.routes.len() {
        if !matches!(spec.routes[route].method, Method::Get) {
            assert_policy_audited(entry, spec.name, &spec.policy, actions);
        }
        route += 1;
    }
}

/// Fails to compile if a function with `#[route]` changes records, requires one of the actions and
/// is not audited.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_route_audited(entry: &EntityEntry, index: usize, actions: &[&str]) {
    let spec = &entry.routes[index];
    if !matches!(spec.route.method, Method::Get) {
        assert_policy_audited(entry, spec.name, &spec.policy, actions);
    }
}

/// Fails to compile if no permission of the entities names an action. The name is then misspelt,
/// and the routes that it should protect are not audited.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_action(entities: &[EntityEntry], action: &str) {
    let mut i = 0;
    while i < entities.len() {
        if names(&entities[i], action) {
            return;
        }
        i += 1;
    }
    let mut text = Sentence::new();
    text.push("linchpin: no permission of the package names `");
    text.push(action);
    text.push("`\nhelp: write an action exactly as in `permission(requires = ..)` or in its `or`");
    text.stop()
}

/// Whether a permission of an entity, of one of its operations or of one of its routes names an
/// action. True for a declaration that does not compile.
const fn names(entry: &EntityEntry, action: &str) -> bool {
    let mut found = requires_action(&entry.desc.defaults, action);
    let mut i = 0;
    while i < entry.desc.routes.len() {
        found = found || requires_action(&entry.desc.routes[i], action);
        i += 1;
    }
    let mut i = 0;
    while i < entry.operations.len() {
        let spec = entry.operations[i];
        found = found || spec.name.is_empty() || requires_action(&spec.policy, action);
        let mut part = 0;
        while part < spec.parts.len() {
            found = found || requires_action(&spec.parts[part].policy, action);
            part += 1;
        }
        i += 1;
    }
    {
        let mut i = 0;
        while i < entry.routes.len() {
            found = found
                || entry.routes[i].name.is_empty()
                || requires_action(&entry.routes[i].policy, action);
            i += 1;
        }
    }
    found
}

const fn requires_action(policy: &PolicyDesc, action: &str) -> bool {
    match policy.permission {
        Some(permission) => named(permission, &[action]).is_some(),
        None => false,
    }
}

/// Fails to compile if the policy of the route `name` requires one of the actions and has no
/// `audit`. `own` is the policy without the defaults of the entity.
#[track_caller]
const fn assert_policy_audited(
    entry: &EntityEntry,
    name: &str,
    own: &PolicyDesc,
    actions: &[&str],
) {
    let policy = own.or(entry.desc.defaults);
    let Some(permission) = policy.permission else {
        return;
    };
    if policy.disabled || policy.audit.is_some() {
        return;
    }
    let Some(action) = named(permission, actions) else {
        return;
    };
    let mut text = Sentence::new();
    text.push("linchpin: `");
    text.push(name);
    text.push("` of `");
    text.push(entry.desc.name);
    text.push("` needs `audit`: its permission names `");
    text.push(action);
    text.push("`");
    text.stop()
}

/// Returns the first of the actions that a permission names.
const fn named<'a>(permission: &PermissionDesc, actions: &[&'a str]) -> Option<&'a str> {
    let mut i = 0;
    while i < actions.len() {
        let mut found = same(permission.requires, actions[i]);
        let mut n = 0;
        while n < permission.or.len() {
            found = found || same(permission.or[n], actions[i]);
            n += 1;
        }
        if found {
            return Some(actions[i]);
        }
        i += 1;
    }
    None
}

pub(super) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
