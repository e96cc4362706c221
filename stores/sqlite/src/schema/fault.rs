//! Converts errors of SQLite into errors of schema changes.

use rusqlite::{Error, ErrorCode};

use linchpin_core::schema::{SchemaError, SchemaFault};

/// The result of a schema operation.
pub(super) type Outcome<T> = Result<T, SchemaError>;

/// Converts an error of the database. The message contains names, but no values of records.
pub(super) fn of(error: Error) -> SchemaError {
    let fault = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SchemaFault::LockTimeout,
        Some(
            ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied,
        ) => SchemaFault::Forbidden,
        Some(ErrorCode::DiskFull) => SchemaFault::Full,
        Some(ErrorCode::ConstraintViolation) => SchemaFault::Violation,
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => SchemaFault::Unreachable,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => SchemaFault::Damaged,
        _ => SchemaFault::Other,
    };
    SchemaError::new(fault, error)
}

/// Converts an error of another file than the database, such as the lock file.
pub(super) fn of_file(error: &std::io::Error, what: impl std::fmt::Display) -> SchemaError {
    use std::io::ErrorKind;
    let fault = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => SchemaFault::Forbidden,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SchemaFault::Full,
        ErrorKind::NotFound | ErrorKind::NotADirectory => SchemaFault::Unreachable,
        _ => SchemaFault::Other,
    };
    SchemaError::new(fault, format_args!("{what}: {error}"))
}

/// An error that does not come from the database.
pub(super) fn other(message: impl std::fmt::Display) -> SchemaError {
    SchemaError::new(SchemaFault::Other, message)
}
