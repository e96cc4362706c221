//! Converts errors of Postgres into errors of the framework.

use tokio_postgres::error::SqlState;

use super::schema;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::layout;
use linchpin_core::{Code, Error, Problem};
use linchpin_sql::names::Naming;

/// An error of a statement on `entity`.
pub(super) fn of(naming: &Naming, entity: &EntityDesc, error: tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        return Error::unavailable(error);
    };
    let state = db.code();
    if *state == SqlState::UNIQUE_VIOLATION {
        let fields = db
            .constraint()
            .and_then(|name| violated(naming, entity, name, db.detail()));
        return match fields {
            Some(fields) => Error::unique(fields),
            None => Error::internal(error),
        };
    }
    let at = (db.column(), db.constraint());
    if is_pending(naming, entity, state.code(), at, db.message()) {
        return Error::schema_pending(error);
    }
    if *state == SqlState::NUMERIC_VALUE_OUT_OF_RANGE {
        return Error::invalid(Problem::new(
            "",
            "range",
            "a sum is outside of the range of 64-bit integers",
        ));
    }
    plain(error)
}

/// The error of a statement that the server has canceled: `timeout`.
pub(super) fn canceled() -> Error {
    Error::new(Code::Timeout, "The database took too long")
}

/// An error of a statement that does not concern a record.
pub(super) fn plain(error: tokio_postgres::Error) -> Error {
    let Some(state) = error.code() else {
        return Error::unavailable(error);
    };
    if is_canceled(&error) {
        return canceled();
    }
    // By SQLSTATE class: connection, rollback (serialization, deadlock), resources, operator
    // intervention, system. Also a standby server.
    let transient = ["08", "40", "53", "57", "58"]
        .iter()
        .any(|class| state.code().starts_with(class))
        || *state == SqlState::LOCK_NOT_AVAILABLE
        || *state == SqlState::READ_ONLY_SQL_TRANSACTION;
    let repeatable = may_retry(&error);
    let error = if transient {
        Error::unavailable(error)
    } else {
        Error::internal(error)
    };
    if repeatable {
        error.conflicting_write()
    } else {
        error
    }
}

/// Whether the statement can be retried: it hit a lock timeout, or the server rolled it back in
/// favor of another one.
pub(super) fn may_retry(error: &tokio_postgres::Error) -> bool {
    is_lock_timeout(error)
        || is_deadlock(error)
        || error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
}

/// Whether the statement waited too long for a lock.
pub(super) fn is_lock_timeout(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the server ended the statement because of a deadlock.
pub(super) fn is_deadlock(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// Whether the server canceled the statement, for example because of its time limit.
pub(super) fn is_canceled(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::QUERY_CANCELED)
}

/// Whether the server cannot parse or does not support the statement.
pub(super) fn is_unsupported(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|c| c.code().starts_with("42") || c.code().starts_with("0A"))
}

/// Whether the connection to the server is lost.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    let stopped = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    match error.code() {
        Some(code) => stopped.contains(code),
        None => {
            error.is_closed()
                || std::error::Error::source(error)
                    .is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
        }
    }
}

/// The start of a text that is not a number; the name of a column follows. If a column does not
/// accept a value yet, a statement converts this text to a number, which fails. A violated
/// constraint would be logged with all values of the row; this error is logged with the text only.
pub(super) const PENDING: &str = "linchpin: schema_pending: ";

/// Whether the error is about a value that the column accepts only after the open migration. `at`
/// is the column and the constraint in the error of the server.
pub(super) fn is_pending(
    naming: &Naming,
    entity: &EntityDesc,
    state: &str,
    at: (Option<&str>, Option<&str>),
    message: &str,
) -> bool {
    match (state, at) {
        // `PENDING` is not a number. The names may have changed since the statement was rendered, so
        // the column need not be pending any more.
        ("22P02", _) => message.contains(PENDING),
        // NOT NULL.
        ("23502", (Some(column), _)) => naming.is_pending(entity, column),
        // CHECK.
        ("23514", (_, Some(check))) => naming.is_pending_check(entity, check),
        _ => false,
    }
}

/// Whether the server did not find a table or a column.
pub(super) fn is_missing(error: &tokio_postgres::Error) -> bool {
    let names = [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE];
    error.code().is_some_and(|code| names.contains(code))
}

/// Whether a constraint is the primary key of a table, with its current or its declared name.
pub(super) fn is_key(naming: &Naming, entity: &EntityDesc, constraint: &str) -> bool {
    constraint == schema::key_name(entity)
        || constraint == linchpin_core::schema::key_name(naming.table(entity))
}

/// The wire names of the fields in the detail of a violation: `Key (a, b)=(1, 2) already exists.`
/// The words may be in another language.
fn detailed(naming: &Naming, entity: &EntityDesc, detail: &str) -> Option<Vec<&'static str>> {
    let (_, columns) = detail.split_once('(')?;
    let (columns, _) = columns.split_once(")=(")?;
    let wire = |column: &str| {
        // Names with other characters than letters, digits and `_` are in quotes.
        let bare = column.strip_prefix('"').and_then(|c| c.strip_suffix('"'));
        naming.wire(entity, bare.unwrap_or(column))
    };
    columns.split(", ").map(wire).collect()
}

/// The wire names of a constraint's fields. While a migration is open, an index may have another
/// name than declared; then the columns in the `detail` of the server are used.
pub(super) fn violated(
    naming: &Naming,
    entity: &EntityDesc,
    constraint: &str,
    detail: Option<&str>,
) -> Option<Vec<&'static str>> {
    let wire = |field: usize| entity.fields[field].wire;
    if is_key(naming, entity, constraint) {
        return Some(vec![entity.primary_field().wire]);
    }
    let index = layout::indexes(entity)
        .into_iter()
        .find(|index| index.unique && index.name(entity) == constraint);
    let fields: Vec<&str> = match index {
        Some(index) => index.keys.iter().map(|k| wire(k.field)).collect(),
        None => detailed(naming, entity, detail?)?,
    };
    let declared = |fields: &[&str]| {
        entity
            .uniques
            .iter()
            .any(|u| u.fields.iter().map(|f| wire(*f)).eq(fields.iter().copied()))
    };
    // The index begins with the tenant, which is not one of the constraint's fields.
    match (entity.tenant, fields.split_first()) {
        (Some(tenant), Some((first, rest)))
            if wire(tenant.field) == *first && declared(rest) && !declared(&fields) =>
        {
            Some(rest.to_vec())
        }
        _ => Some(fields),
    }
}
