//! What went wrong in Postgres, in the framework's terms.

use tokio_postgres::error::SqlState;

use super::schema;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::layout;
use linchpin_core::{Code, Error, Problem};

/// An error of a statement on `entity`.
pub(super) fn of(entity: &EntityDesc, error: tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        return Error::unavailable(error);
    };
    let state = db.code();
    if *state == SqlState::UNIQUE_VIOLATION {
        return match db.constraint().and_then(|name| violated(entity, name)) {
            Some(fields) => Error::unique(fields),
            None => Error::internal(error),
        };
    }
    if *state == SqlState::NUMERIC_VALUE_OUT_OF_RANGE {
        return Error::invalid(Problem::new(
            "",
            "range",
            "a sum is beyond the range of whole numbers",
        ));
    }
    plain(error)
}

/// The server ended a statement before it was done.
pub(super) fn ended() -> Error {
    Error::new(Code::Timeout, "The database took too long")
}

/// An error of a statement that has nothing to do with a record.
pub(super) fn plain(error: tokio_postgres::Error) -> Error {
    let Some(state) = error.code() else {
        return Error::unavailable(error);
    };
    if is_ended(&error) {
        return ended();
    }
    // By class: connection, rollback (serialization, deadlock), resources, operator intervention,
    // system; and a standby.
    let passing = ["08", "40", "53", "57", "58"]
        .iter()
        .any(|class| state.code().starts_with(class))
        || *state == SqlState::LOCK_NOT_AVAILABLE
        || *state == SqlState::READ_ONLY_SQL_TRANSACTION;
    let repeatable = may_repeat(&error);
    let told = if passing {
        Error::unavailable(error)
    } else {
        Error::internal(error)
    };
    if repeatable { told.overtaken() } else { told }
}

/// Whether the statement gave way to another one, or the server undid it in favour of one, so that
/// it can be run again.
pub(super) fn may_repeat(error: &tokio_postgres::Error) -> bool {
    is_held_up(error)
        || is_deadlock(error)
        || error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
}

/// Whether somebody held what the statement wanted, for longer than it could wait.
pub(super) fn is_held_up(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether several waited for each other, of which the server ended this one.
pub(super) fn is_deadlock(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// Whether the server ended the statement before it was done.
pub(super) fn is_ended(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::QUERY_CANCELED)
}

/// Whether the server does not know how to run the statement.
pub(super) fn is_unreadable(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|c| c.code().starts_with("42") || c.code().starts_with("0A"))
}

/// Whether the server, or the way to it, has gone.
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

/// The wire names of a constraint's fields.
pub(super) fn violated(entity: &EntityDesc, constraint: &str) -> Option<Vec<&'static str>> {
    let wire = |field: usize| entity.fields[field].wire;
    if constraint == schema::key_name(entity) {
        return Some(vec![entity.primary_field().wire]);
    }
    let index = layout::indexes(entity)
        .into_iter()
        .find(|index| index.unique && index.name(entity) == constraint)?;
    let fields: Vec<&str> = index.keys.iter().map(|k| wire(k.field)).collect();
    let declared = |fields: &[&str]| {
        entity
            .uniques
            .iter()
            .any(|u| u.fields.iter().map(|f| wire(*f)).eq(fields.iter().copied()))
    };
    // The tenant that the index begins with is none of the constraint's fields.
    match (entity.tenant, fields.split_first()) {
        (Some(tenant), Some((first, rest)))
            if wire(tenant.field) == *first && declared(rest) && !declared(&fields) =>
        {
            Some(rest.to_vec())
        }
        _ => Some(fields),
    }
}
