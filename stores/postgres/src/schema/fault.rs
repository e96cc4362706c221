//! Converts errors of the server into faults of a schema.

use linchpin_core::schema::{SchemaError, SchemaFault};
use sqlx::postgres::PgDatabaseError;

/// Converts an error by its SQLSTATE. The message contains no values of records.
pub(super) fn of(error: sqlx::Error) -> SchemaError {
    let sqlx::Error::Database(database) = &error else {
        let fault =
            if linchpin_sql::is_transient(&error) || matches!(error, sqlx::Error::Protocol(_)) {
                SchemaFault::Unreachable
            } else {
                SchemaFault::Other
            };
        return SchemaError::new(fault, error);
    };
    let state = database.code().unwrap_or_default();
    let fault = by_state(&state);
    let message = database.message();
    if state.starts_with("22") {
        // Messages of this class contain the value.
        return SchemaError::new(fault, format!("the server refuses a value (code {state})"));
    }
    // The detail lists the dependent objects.
    let detail = (state == DEPENDENTS)
        .then(|| database.try_downcast_ref::<PgDatabaseError>())
        .flatten()
        .and_then(PgDatabaseError::detail);
    match detail {
        Some(detail) => SchemaError::new(fault, format!("{message}: {detail}")),
        None => SchemaError::new(fault, message),
    }
}

/// The SQLSTATE if other objects depend on the object to drop.
const DEPENDENTS: &str = "2BP01";

fn by_state(state: &str) -> SchemaFault {
    match state {
        "55P03" | "40P01" => SchemaFault::LockTimeout,
        "53100" => SchemaFault::Full,
        "42501" | "25006" => SchemaFault::Forbidden,
        DEPENDENTS => SchemaFault::Violation,
        // Too many connections, no such database, or the server stops or starts.
        "53300" | "3D000" | "57P01" | "57P02" | "57P03" => SchemaFault::Unreachable,
        _ if state.starts_with("23") => SchemaFault::Violation,
        // Connections, and refused users.
        _ if state.starts_with("08") || state.starts_with("28") => SchemaFault::Unreachable,
        _ => SchemaFault::Other,
    }
}

/// Whether the server canceled the statement.
pub(super) fn is_canceled(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().as_deref() == Some("57014"))
}
