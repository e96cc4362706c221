//! Docs of generated public items, so that users may `#![deny(missing_docs)]`.
//!
//! Plain code spans, no links: a link that the user's crate cannot resolve would warn there.

/// The member that `version` adds.
pub(crate) fn version() -> &'static str {
    " Counts the changes of the record, starting at 1."
}

/// The module of markers.
pub(crate) fn module(entity: &str) -> String {
    format!(" The fields of `{entity}`, to build filters and sorts from.")
}

/// A marker; the user's own words when there are some.
pub(crate) fn marker(entity: &str, field: &str, doc: &str) -> String {
    if doc.is_empty() {
        format!(" The field `{field}` of `{entity}`.")
    } else {
        lines(doc)
    }
}

/// The input of `create`.
pub(crate) fn create(entity: &str) -> String {
    format!(" What creating a `{entity}` takes. `None` selects the default.")
}

/// The input of `update`.
pub(crate) fn patch(entity: &str) -> String {
    format!(" What updating a `{entity}` takes. `None` leaves a member unchanged.")
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
    format!(" What listing `{entity}` records takes: page, sort and filter.")
}

/// The adapter.
pub(crate) fn adapter(entity: &str) -> String {
    format!(
        " Everything that can be done with `{entity}` records: CRUD, and a method per operation."
    )
}

// rustdoc expects the leading space that `///` leaves.
fn lines(doc: &str) -> String {
    doc.lines()
        .map(|line| format!(" {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
