//! Errors that keep an app from starting.

use crate::{Code, Error};

/// Creates a start-up error; the operator of the app reads its text.
pub(crate) fn startup(text: impl Into<String>) -> Error {
    Error::new(Code::Internal, text.into())
}
