//! Extractors: argument types for handlers of extra and plugin routes.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::serve::Denied;
use crate::{Adapters, Cx, Error};

impl<S: Sync> FromRequestParts<S> for Cx {
    type Rejection = Error;

    /// The context of the request. On a plugin's route with an invalid credential: the resolver's
    /// error.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        if let Some(cx) = parts.extensions.get::<Self>() {
            return Ok(cx.clone());
        }
        Err(match parts.extensions.get::<Denied>() {
            Some(Denied { error, .. }) => copy(error),
            None => {
                Error::internal("the handler was not mounted through an app: there is no context")
            }
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Adapters {
    type Rejection = Error;

    /// Typed access to every adapter of the app.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let adapters = parts.extensions.get::<Self>().cloned();
        adapters.ok_or_else(|| {
            Error::internal("the handler was not mounted through an app: there are no adapters")
        })
    }
}

/// The public part of an error, without its cause.
pub(super) fn copy(error: &Error) -> Error {
    let copy =
        Error::new(error.code(), error.message().to_owned()).with_details(error.details().to_vec());
    match error.retry_after_seconds() {
        Some(seconds) => copy.retry_after(seconds),
        None => copy,
    }
}
