//! The const assertion that scopes name existing routes. `package!` makes it, because only the
//! package knows the operations of an entity.

use super::EntityEntry;
use super::audited::same;
use super::duplicates::sentence::Sentence;
use crate::operation::OpSpec;

/// Fails to compile if a scope names a route that is neither generated nor an operation in the
/// package. A misspelt name would leave its route without the scope.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_scoped(entry: &EntityEntry) {
    let mut i = 0;
    while i < entry.desc.scope.len() {
        let scope = &entry.desc.scope[i];
        if let Some(routes) = scope.apply_to {
            let mut r = 0;
            while r < routes.len() {
                if !is_route(entry, routes[r]) {
                    refuse(entry, entry.desc.fields[scope.field].name, routes[r]);
                }
                r += 1;
            }
        }
        i += 1;
    }
}

const fn is_route(entry: &EntityEntry, name: &str) -> bool {
    const GENERATED: [&str; 5] = ["create", "list", "get", "update", "delete"];
    let mut i = 0;
    while i < GENERATED.len() {
        if same(GENERATED[i], name) {
            return true;
        }
        i += 1;
    }
    let mut i = 0;
    while i < entry.operations.len() {
        if is_called(entry.operations[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether the operation, or a method of it, has the name. True for a declaration that does not
/// compile, because it reports its own error.
const fn is_called(spec: &OpSpec, name: &str) -> bool {
    let mut i = 0;
    while i < spec.parts.len() {
        if same(spec.parts[i].name, name) {
            return true;
        }
        i += 1;
    }
    same(spec.name, name) || spec.name.is_empty()
}

#[track_caller]
const fn refuse(entry: &EntityEntry, field: &str, route: &str) -> ! {
    let mut text = Sentence::new();
    text.push("linchpin: scope `");
    text.push(field);
    text.push("` of `");
    text.push(entry.desc.name);
    text.push("` applies to `");
    text.push(route);
    text.push(
        "`, which is neither a route of the entity nor an operation listed here\nhelp: list the operation, or correct the name in `apply_to`",
    );
    text.stop()
}
