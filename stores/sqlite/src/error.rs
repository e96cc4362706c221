//! Converts errors of SQLite into errors of the framework.

use rusqlite::ErrorCode;

use linchpin_core::entity::EntityDesc;
use linchpin_core::{Error, Problem};

/// An error of a statement on `entity`.
pub(super) fn of(entity: &EntityDesc, error: rusqlite::Error) -> Error {
    let rusqlite::Error::SqliteFailure(failure, message) = &error else {
        return Error::internal(error);
    };
    match failure.code {
        ErrorCode::ConstraintViolation => {
            match message.as_deref().and_then(|m| violated(entity, m)) {
                Some(fields) => Error::unique(fields),
                None => Error::internal(error),
            }
        }
        // The error of SUM over integers.
        ErrorCode::Unknown if message.as_deref() == Some("integer overflow") => Error::invalid(
            Problem::new("", "range", "a sum is beyond the range of whole numbers"),
        ),
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

/// The wire names in `UNIQUE constraint failed: posts.a, posts.b`.
pub(super) fn violated(entity: &EntityDesc, message: &str) -> Option<Vec<&'static str>> {
    let columns = message.strip_prefix("UNIQUE constraint failed: ")?;
    let wire = |column: &str| {
        let column = column
            .strip_prefix(entity.storage_name)?
            .strip_prefix('.')?;
        entity
            .fields
            .iter()
            .find(|f| f.column == column)
            .map(|f| f.wire)
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
