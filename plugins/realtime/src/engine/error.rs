//! Errors of engines.

use std::error::Error as StdError;

use linchpin::{Code, Error};

/// The result of a call of an engine.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// The reason that an engine refuses a call. The text contains the cause, so `source` returns
/// nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine does not answer, or is closed. The call may have been executed; it can be
    /// repeated later.
    #[error("the realtime engine is unavailable: {0}")]
    Unavailable(Box<dyn StdError + Send + Sync>),
    /// Another leader of the consumer has appended with a higher fence. This leader must stop.
    #[error("another leader of the consumer has the higher fence {seen}: this leader must stop")]
    Fenced {
        /// The highest fence that the engine has seen for the consumer.
        seen: u64,
    },
    /// A message is longer than the maximum length of the engine.
    #[error("a message of {bytes} bytes is longer than the maximum of {max} bytes")]
    TooLarge {
        /// The length of the message.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// The engine answers, but not as expected: a server that is too old, a missing permission,
    /// foreign data under its names.
    #[error("the realtime engine failed: {0}")]
    Failed(Box<dyn StdError + Send + Sync>),
}

impl EngineError {
    /// Returns an [`Unavailable`](Self::Unavailable) with its cause.
    pub fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(cause.into())
    }

    /// Returns a [`Failed`](Self::Failed) with its cause.
    pub fn failed(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Failed(cause.into())
    }

    /// Whether the engine is down and the call can be repeated later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<EngineError> for Error {
    /// Unavailable and fenced are 503 `unavailable`, too large is 413, everything else is 500.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unavailable(_) | EngineError::Fenced { .. } => Self::unavailable(error),
            EngineError::TooLarge { .. } => Self::new(Code::BodyTooLarge, error.to_string()),
            EngineError::Failed(_) => Self::internal(error),
        }
    }
}
