//! Errors that keep an app from starting.

use crate::{Code, Error};

/// A start-up error; its text is for the person who starts the app.
pub(crate) fn startup(text: impl Into<String>) -> Error {
    Error::new(Code::Internal, text.into())
}
