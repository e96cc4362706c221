//! The planned operations of a mounted entity.

use std::sync::Arc;

use super::OpSpec;
use super::bind::param_path;
use crate::resource::{Call, Executor, Outcome, Table};
use crate::{Error, Problem, Result};

impl Table {
    /// Runs an operation; plans it on first use.
    ///
    /// # Errors
    /// The errors of the operation.
    pub async fn run(&self, spec: &'static OpSpec, mut call: Call<'_>) -> Result<Outcome> {
        let executor = self.executor(spec)?;
        spec.complete(|| call.cx.now(), &mut call.args);
        executor
            .run(self, call)
            .await
            .map_err(|error| self.at_parameters(spec, error))
    }

    /// For a problem with code `reference` (the key refers to no visible record), replaces the path
    /// of the field by the path of the parameter with that key.
    pub(crate) fn at_parameters(&self, spec: &OpSpec, error: Error) -> Error {
        let at = |problem: &Problem| {
            let field = self
                .desc
                .fields
                .iter()
                .position(|f| f.wire == problem.path)?;
            let param = spec
                .params
                .iter()
                .find(|p| p.field == field && p.entity.is_none())?;
            Some(param_path(param))
        };
        if error
            .details()
            .iter()
            .all(|problem| problem.code != "reference")
        {
            return error;
        }
        let moved = |problem: &Problem| match at(problem).filter(|_| problem.code == "reference") {
            Some(path) => Problem {
                path,
                ..problem.clone()
            },
            None => problem.clone(),
        };
        let details = error.details().iter().map(moved).collect();
        error.with_details(details)
    }

    /// The planned form of an operation.
    ///
    /// # Errors
    /// If the store refuses a statement of the operation.
    pub fn executor(&self, spec: &'static OpSpec) -> Result<Arc<dyn Executor>> {
        if let Some(executor) = self.planned(spec.name) {
            return Ok(executor);
        }
        self.declare(spec)?;
        let executor: Arc<dyn Executor> = Arc::from(super::plan(spec, self)?);
        self.keep_planned(spec.name, &executor);
        Ok(executor)
    }
}
