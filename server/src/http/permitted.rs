//! Calls of routes that need a permission.

use super::mounted::Target;
use crate::filter::Filter;
use crate::operation::permit::Permit;
use crate::resource::Outcome;
use crate::{Cx, Error, Result};

/// A call under the permission of its route.
pub(super) struct Permitted<'a> {
    pub(super) permit: &'a Permit,
    /// Limited to the records that the permission allows.
    pub(super) cx: Cx,
    /// The record of the call, if it names one.
    pub(super) matches: Option<Filter>,
}

impl Permitted<'_> {
    /// Returns the result. If it is an error, distinguishes a forbidden record from a missing one.
    pub(super) async fn settle<T>(self, target: &Target, result: Result<T>) -> Result<T> {
        match (result, &self.matches) {
            (Err(error), Some(matches)) => {
                Err(Box::pin(self.permit.explain(&target.table, &self.cx, matches, error)).await)
            }
            (done, _) => done,
        }
    }
}

/// Converts an empty result into `not_found`.
pub(super) fn require_record(outcome: Result<Outcome>) -> Result<Outcome> {
    match outcome {
        Ok(Outcome::Record(rows)) if rows.count == 0 => Err(Error::not_found()),
        outcome => outcome,
    }
}
