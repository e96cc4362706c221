//! Statements that failed because a migration has changed a name.

use linchpin_core::store::Rows;
use linchpin_core::{Error, Result};
use linchpin_sql::names::PresentNames;

use super::error::{Missing, missing_in};

/// The maximum number of further runs: one after a change of names, and one without index hints.
const MAX_RETRIES: usize = 2;

/// Runs a statement again after it failed because of a name, if the names have changed since the
/// `generation` that it was rendered for.
pub(super) async fn repeat<F: Future<Output = Result<Rows>>>(
    names: &PresentNames,
    generation: u64,
    failure: Error,
    run: impl Fn() -> F,
) -> Result<Rows> {
    let (mut generation, mut failure) = (generation, failure);
    for _ in 0..MAX_RETRIES {
        let changed = match missing_in(&failure) {
            None => false,
            // The statement runs again without the index hint.
            Some(Missing::Index) => {
                names.without_hints(generation);
                names.generation() != generation
            }
            Some(Missing::Name) => names.refreshed(generation).await?,
        };
        if !changed {
            break;
        }
        generation = names.generation();
        match run().await {
            Err(error) => failure = error,
            rows => return rows,
        }
    }
    Err(failure)
}

/// The error of a statement within a transaction that failed because of a name.
pub(super) async fn pending(names: &PresentNames, generation: u64, failure: Error) -> Error {
    if missing_in(&failure) == Some(Missing::Index) {
        names.without_hints(generation);
    }
    names.within_transaction(failure, generation).await
}
