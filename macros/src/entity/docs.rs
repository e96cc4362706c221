//! The docs of generated public items, so that apps can use `#![deny(missing_docs)]`.
//!
//! The docs contain plain code spans and no links, because an unresolved link would cause a warning
//! in the app's crate.

/// The member that `version` adds.
pub(crate) fn version() -> &'static str {
    " Counts the changes of the record, starting at 1."
}

/// The module of markers.
pub(crate) fn module(entity: &str) -> String {
    format!(" The fields of `{entity}`, to build filters and sorts from.")
}

/// A marker: the doc comment of the app, if there is one.
pub(crate) fn marker(entity: &str, field: &str, doc: &str) -> String {
    if doc.is_empty() {
        format!(" The field `{field}` of `{entity}`.")
    } else {
        lines(doc)
    }
}

/// The input of `create`.
pub(crate) fn create(entity: &str) -> String {
    format!(" The input of `create` for `{entity}` records. `None` selects the default.")
}

/// The input of `update`.
pub(crate) fn patch(entity: &str) -> String {
    format!(" The input of `update` for `{entity}` records. `None` leaves a field unchanged.")
}

/// A member of either.
pub(crate) fn member(field: &str, doc: &str) -> String {
    if doc.is_empty() {
        format!(" `{field}`.")
    } else {
        lines(doc)
    }
}

/// The alias of the list query.
pub(crate) fn list_query(entity: &str) -> String {
    format!(" The query of `list` for `{entity}` records: page, sort and filter.")
}

/// The adapter.
pub(crate) fn adapter(entity: &str) -> String {
    format!(" The adapter of `{entity}` records: CRUD, and a method for each operation.")
}

// rustdoc expects the leading space, as after `///`.
fn lines(doc: &str) -> String {
    doc.lines()
        .map(|line| format!(" {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
