//! Calls that a permission limits.

use super::mounted::Target;
use crate::filter::Filter;
use crate::permission::Permit;
use crate::resource::Outcome;
use crate::{Cx, Error, Result};

/// A call under the permission of its route.
pub(super) struct Permitted<'a> {
    pub(super) permit: &'a Permit,
    /// Limited to what it may touch.
    pub(super) cx: Cx,
    /// The record it is about, if it is about one.
    pub(super) matches: Option<Filter>,
}

impl Permitted<'_> {
    /// The result, with a record that is there and that the caller may not touch told from one that
    /// is not there.
    pub(super) async fn settle<T>(self, on: &Target, result: Result<T>) -> Result<T> {
        match (result, &self.matches) {
            (Err(error), Some(matches)) => {
                Err(Box::pin(self.permit.explain(&on.table, &self.cx, matches, error)).await)
            }
            (done, _) => done,
        }
    }
}

/// No record as an error.
pub(super) fn found(outcome: Result<Outcome>) -> Result<Outcome> {
    match outcome {
        Ok(Outcome::Record(rows)) if rows.count == 0 => Err(Error::not_found()),
        outcome => outcome,
    }
}
