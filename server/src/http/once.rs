//! What a call answers once: members that no later read gives, and that nothing keeps.
//!
//! Code of the user says them while it runs. They join the answer on its way out, behind everything
//! that writes something down: a repetition under an idempotency key finds the answer as it was
//! before.

use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;

use super::serve::NO_STORE;
use crate::entity::FieldDesc;
use crate::{Error, Result, Value};

/// That an answer has been given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The members of one call.
pub(crate) struct Once {
    declared: &'static [FieldDesc],
    /// One for each.
    said: Mutex<Vec<Option<Value>>>,
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What they hold is for one pair of eyes.
        f.debug_list()
            .entries(self.declared.iter().map(|field| field.name))
            .finish()
    }
}

impl Once {
    pub(crate) fn new(declared: &'static [FieldDesc]) -> Self {
        Self {
            declared,
            said: Mutex::new(vec![None; declared.len()]),
        }
    }

    /// Notes a value.
    ///
    /// # Errors
    /// `internal` for a name or a type that is not declared.
    pub(crate) fn say(&self, name: &str, kind: crate::entity::Kind, value: Value) -> Result<()> {
        let declared = self.declared.iter().position(|field| field.name == name);
        let at = declared.ok_or_else(|| {
            Error::internal(format!("`output_once` of the route does not name `{name}`"))
        })?;
        let field = &self.declared[at];
        if !kind.meets(field.kind) || (value.is_null() && !field.optional) {
            return Err(Error::internal(format!(
                "`{name}` of `output_once` is {}, and {} was said",
                field.kind.name(),
                kind.name()
            )));
        }
        self.said.lock()[at] = Some(value);
        Ok(())
    }

    /// The answer with what was said.
    ///
    /// # Errors
    /// `internal` when something was not.
    pub(super) async fn reveal(&self, response: Response<Body>) -> Result<Response<Body>> {
        if !response.status().is_success() || response.headers().contains_key(REPLAYED) {
            return Ok(response);
        }
        let (mut parts, body) = response.into_parts();
        let record = body.collect().await.map_err(Error::internal)?.to_bytes();
        // Taken out: nobody can give them a second time.
        let said = std::mem::take(&mut *self.said.lock());
        let mut members = Vec::with_capacity(said.len());
        for (field, value) in self.declared.iter().zip(said) {
            let value = value.ok_or_else(|| {
                Error::internal(format!("`{}` of `output_once` was not said", field.name))
            })?;
            members.push((field.wire, value));
        }
        let mut added = Vec::with_capacity(128);
        crate::json::write_object(members, &mut added);
        let whole = match (record.strip_suffix(b"}"), added.strip_prefix(b"{")) {
            (Some(b"{"), _) => added,
            (Some(record), Some(added)) => [record, b",", added].concat(),
            _ => {
                return Err(Error::internal(
                    "what is given once needs an answer that is one record",
                ));
            }
        };
        parts.headers.insert(CACHE_CONTROL, NO_STORE);
        Ok(Response::from_parts(parts, Body::from(whole)))
    }
}
