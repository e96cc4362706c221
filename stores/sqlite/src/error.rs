//! Converts errors of SQLite into errors of the framework.

use rusqlite::ErrorCode;

use linchpin_core::entity::EntityDesc;
use linchpin_core::{Error, Problem};
use linchpin_sql::names::Naming;

/// An error of a statement on `entity`.
pub(super) fn of(naming: &Naming, entity: &EntityDesc, error: rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(failure, message) = &error else {
        return Error::internal(error);
    };
    match failure.code {
        ErrorCode::ConstraintViolation => {
            let message = message.as_deref().unwrap_or_default();
            match violated(naming, entity, message) {
                Some(fields) => Error::unique(fields),
                None if is_pending(naming, entity, message) => Error::schema_pending(error),
                None => Error::internal(error),
            }
        }
        // SQLite returns this error if SUM overflows.
        ErrorCode::Unknown if message.as_deref() == Some("integer overflow") => {
            Error::invalid(Problem::new(
                "",
                "range",
                "a sum is outside of the range of 64-bit integers",
            ))
        }
        ErrorCode::DiskFull
        | ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::CannotOpen
        | ErrorCode::SystemIoFailure
        | ErrorCode::OutOfMemory
        | ErrorCode::ReadOnly => Error::unavailable(error),
        _ => Error::internal(error),
    }
}

/// The error of a write whose group was rolled back because another write of the group failed with
/// `cause`. If `cause` is a missing name, every write of the group may run again with the current
/// names. [`missing_in`] therefore also recognizes this error.
pub(super) fn undone(cause: &str) -> Error {
    if missing(cause).is_some() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
        let missing_name = rusqlite::Error::SqliteFailure(code, Some(cause.to_owned()));
        return Error::unavailable(missing_name);
    }
    Error::unavailable(format!("the group of writes was not committed: {cause}"))
}

/// Whether another connection holds the lock.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(
        code(error),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Whether the statement was interrupted.
pub(super) fn is_interrupted(error: &Error) -> bool {
    code(error) == Some(ErrorCode::OperationInterrupted)
}

fn code(error: &Error) -> Option<ErrorCode> {
    let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<rusqlite::Error>());
    cause.and_then(rusqlite::Error::sqlite_error_code)
}

/// Whether a constraint refused a value that it accepts only after the open migration.
pub(super) fn is_pending(naming: &Naming, entity: &EntityDesc, message: &str) -> bool {
    if let Some(column) = message.strip_prefix("NOT NULL constraint failed: ") {
        let column = column
            .strip_prefix(naming.table(entity))
            .and_then(|column| column.strip_prefix('.'));
        return column.is_some_and(|column| naming.is_pending(entity, column));
    }
    message
        .strip_prefix("CHECK constraint failed: ")
        .is_some_and(|check| naming.is_pending_check(entity, check))
}

/// The name that the database did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// A table or a column.
    Name,
    /// An index that a read names.
    Index,
}

/// The kind of name that a message reports as missing.
pub(super) fn missing(message: &str) -> Option<Missing> {
    if message.starts_with("no such index: ") {
        Some(Missing::Index)
    } else if message.starts_with("no such column: ")
        || message.starts_with("no such table: ")
        || message.contains(" has no column named ")
    {
        Some(Missing::Name)
    } else {
        None
    }
}

/// The kind of name that a generated statement did not find.
pub(super) fn missing_in(error: &Error) -> Option<Missing> {
    let cause = std::error::Error::source(error)?.downcast_ref::<rusqlite::Error>()?;
    match cause {
        rusqlite::Error::SqliteFailure(_, Some(message)) => missing(message),
        rusqlite::Error::SqlInputError { msg, .. } => missing(msg),
        _ => None,
    }
}

/// The wire names in `UNIQUE constraint failed: posts.a, posts.b`.
pub(super) fn violated(
    naming: &Naming,
    entity: &EntityDesc,
    message: &str,
) -> Option<Vec<&'static str>> {
    let columns = message.strip_prefix("UNIQUE constraint failed: ")?;
    let wire = |column: &str| {
        let column = column.strip_prefix(naming.table(entity))?;
        naming.wire(entity, column.strip_prefix('.')?)
    };
    let fields: Vec<&str> = columns.split(", ").map(wire).collect::<Option<_>>()?;
    let declared = |fields: &[&str]| {
        let wires = |u: &linchpin_core::entity::UniqueDesc| {
            u.fields
                .iter()
                .map(|f| entity.fields[*f].wire)
                .collect::<Vec<_>>()
        };
        entity.uniques.iter().any(|u| wires(u) == fields)
    };
    // The index begins with the tenant, which is not one of the constraint's fields.
    match (entity.tenant, fields.split_first()) {
        (Some(tenant), Some((first, rest)))
            if entity.fields[tenant.field].wire == *first
                && declared(rest)
                && !declared(&fields) =>
        {
            Some(rest.to_vec())
        }
        _ => Some(fields),
    }
}
