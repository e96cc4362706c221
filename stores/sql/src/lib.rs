//! Shared code of the SQL stores: the reach of statements, keyset pages, placeholders, embedded
//! conditions, and short attempts of long reads.

pub mod access;
pub mod custom_sql;
pub mod keyset;
pub mod names;
pub mod read_slots;
pub mod replaced;
pub mod short_reads;
pub mod statement;

/// Whether an error may be temporary: no answer from the server, or no free connection.
pub fn is_transient(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}
