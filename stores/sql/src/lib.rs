//! What the SQL stores share: how far a statement can reach, keyset pages, placeholders, embedded
//! conditions, and short tries of long reads.

pub mod access;
pub mod keyset;
pub mod places;
pub mod statement;
pub mod tries;
pub mod words;

/// Whether a failure may pass: nobody answered, or nobody was free to.
pub fn is_passing(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}
