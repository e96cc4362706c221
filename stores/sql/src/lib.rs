//! What the SQL stores share: how far a statement can reach, keyset pages, placeholders, embedded
//! conditions, and retries of statements that met others ([`queues`], which the runtime uses for
//! every store).

pub mod access;
pub mod keyset;
pub mod places;
pub mod queues;
pub mod tries;
pub mod words;

/// A store that runs SQL, as a type.
pub trait SqlStore: linchpin_core::store::CustomStore {}

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
